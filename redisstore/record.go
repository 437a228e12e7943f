package redisstore

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/picket-go/picket"
)

// nobody stands in a record for the id of a claim that has released it.
const nobody = "--------------------------"

// What a record's state may be.
const (
	stateHeld    = "held"
	stateHandoff = "handoff" // given to a waiter that has not confirmed
	stateKept    = "kept"    // released, but its MinHold is not over
	stateBroken  = "broken"  // by an operator
)

// record is what lock:{N} holds: one line of text that the scripts write and read too.
type record struct {
	id         string
	token      int64
	ttl, delay time.Duration
	state      string
	holder     picket.Holder
}

// parseRecord reads a record. Fields that it does not know are skipped.
func parseRecord(text string) (r record, ok bool) {
	id, rest, ok := strings.Cut(text, " ")
	if !ok || len(id) != len(nobody) {
		return record{}, false
	}
	r.id = id
	for field := range strings.SplitSeq(rest, " ") {
		name, value, _ := strings.Cut(field, "=")
		var err error
		switch name {
		case "token":
			r.token, err = strconv.ParseInt(value, 10, 64)
		case "ttl":
			r.ttl, err = parseMillis(value)
		case "delay":
			r.delay, err = parseMillis(value)
		case "since":
			var ms int64
			ms, err = strconv.ParseInt(value, 10, 64)
			r.holder.Since = time.UnixMilli(ms)
		case "state":
			r.state = value
		case "pid":
			r.holder.PID, err = strconv.Atoi(value)
		case "host":
			r.holder.Host = unescapeText(value)
		case "label":
			r.holder.Label = unescapeText(value)
		}
		if err != nil {
			return record{}, false
		}
	}
	if r.id != nobody {
		r.holder.ID = r.id
	}
	return r, r.state != ""
}

func parseMillis(s string) (time.Duration, error) {
	ms, err := strconv.ParseInt(s, 10, 64)
	return time.Duration(ms) * time.Millisecond, err
}

// live reports whether the lease of a record that has left to live goes on: the rest is lock delay.
func (r record) live(left time.Duration) bool {
	return (r.state == stateHeld || r.state == stateHandoff) && left > r.delay
}

// appendHolder appends who an operator looks for. What users chose comes last and escaped, so that it cannot forge a field.
func appendHolder(b []byte, h picket.Holder) []byte {
	b = strconv.AppendInt(append(b, "pid="...), int64(max(h.PID, 0)), 10)
	b = append(append(b, " host="...), escapeText(h.Host)...)
	return append(append(b, " label="...), escapeText(h.Label)...)
}

// appendHeld appends the end of a new record: all that the server does not add.
func appendHeld(b []byte, ttl, delay int64, h picket.Holder) []byte {
	b = strconv.AppendInt(append(b, "ttl="...), ttl, 10)
	b = strconv.AppendInt(append(b, " max="...), ttl+delay, 10)
	b = strconv.AppendInt(append(b, " delay="...), delay, 10)
	return appendHolder(append(b, " state="+stateHeld+" "...), h)
}

// escapeText leaves printable text readable and makes one word of it.
func escapeText(s string) string {
	plain := true
	for _, r := range s {
		plain = plain && readable(r)
	}
	if plain {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		_, size := utf8.DecodeRuneInString(s[i:])
		if readable(r) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(s[i : i+size]) {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func readable(r rune) bool {
	return r != '%' && r != '=' && r != ' ' && r != utf8.RuneError && unicode.IsPrint(r)
}

func unescapeText(s string) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// millis rounds up: a store may keep a lease for longer than it was asked, never for less.
func millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}
