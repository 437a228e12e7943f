package redisstore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/picket-go/picket"
)

// answer is what a script says of one claim: a word and what belongs to it.
type answer struct {
	word string
	rest []any
}

// answers reads the reply to r.
func answers(r request, raw []any) ([]answer, error) {
	if len(raw) != r.claims {
		return nil, r.garbled(raw)
	}
	all := make([]answer, len(raw))
	for i := range raw {
		var err error
		if all[i], err = r.read(raw, i); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// read reads the answer at i, which the commonest of all are short for: 1 is done, a text the token of a grant with nobody waiting.
func (s subject) read(raw []any, i int) (answer, error) {
	switch x := raw[i].(type) {
	case int64:
		if x == 1 {
			return answer{word: "done"}, nil
		}
	case string:
		return answer{word: "granted", rest: raw[i : i+1]}, nil
	case []any:
		if len(x) > 0 {
			if word, ok := x[0].(string); ok {
				return answer{word: word, rest: x[1:]}, nil
			}
		}
	}
	return answer{}, s.garbled(raw[i])
}

// garbled is the error for an answer that no script of ours gives: something between us and the server speaks for itself.
func (s subject) garbled(x any) error {
	return &serverError{subject: s, sentinel: picket.ErrUnavailable, advice: fmt.Sprintf("the answer %.100q makes no sense", fmt.Sprint(x))}
}

func (a answer) text(i int) string {
	if i >= len(a.rest) {
		return ""
	}
	s, _ := a.rest[i].(string)
	return s
}

// number reads an integer, or a decimal string where Lua's own conversion would lose digits.
func (a answer) number(i int) int64 {
	if i >= len(a.rest) {
		return 0
	}
	switch v := a.rest[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func (a answer) millis(i int) time.Duration { return time.Duration(a.number(i)) * time.Millisecond }

// failure is the error of an answer that says that the script failed for this claim, before its first write.
func (a answer) failure(s subject) error {
	if a.word != "error" {
		return nil
	}
	return refusal(s, a.text(0), a.text(1), nil)
}

// grant reads the answer to an acquire or transfer for c.
func (a answer) grant(s subject, c picket.Claim) (picket.Grant, error) {
	switch a.word {
	case "granted":
		return picket.Grant{Token: a.number(0), TTL: c.TTL, Waiters: int(a.number(1))}, nil
	case "busy":
		busy := &picket.BusyError{Key: c.Key, Remaining: a.millis(1), Waiters: int(a.number(2))}
		if rec, ok := parseRecord(a.text(0)); ok {
			busy.Remaining = max(busy.Remaining, time.Millisecond) // PTTL rounds down, and 0 would say that nobody knows
			busy.Holder = rec.holder
		}
		return picket.Grant{}, busy
	case "gone":
		return picket.Grant{}, fmt.Errorf("%w: this claim on %q was undone and is refused for %s more: draw a new id", picket.ErrRefused, c.Key, a.millis(0))
	}
	return picket.Grant{}, s.garbled(a)
}

// lost reads the answer that c does not hold.
func (a answer) lost(c picket.Claim) *picket.LostError {
	return &picket.LostError{Key: c.Key, Token: a.number(1), Reason: picket.Reason(a.text(0)), At: time.Now()}
}
