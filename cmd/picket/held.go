package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/picket-go/picket"
)

// heldVariable tells a run inside a run which keys it would wait for for ever. It has one word "store,token,key" for each run around, outermost first; store
// and key are escaped so that no name can look like a separator.
const heldVariable = "PICKET_HELD"

func heldEntry(s *store, token int64, key string) string {
	return url.QueryEscape(s.id) + "," + strconv.FormatInt(token, 10) + "," + url.QueryEscape(key)
}

// refuseNested fails if a run around this one holds key: it would wait for its own parent. A process that has outlived that run may have the key.
func refuseNested(ctx context.Context, held string, s *store, key string) error {
	for entry := range strings.FieldsSeq(held) {
		id, rest, _ := strings.Cut(entry, ",")
		number, name, _ := strings.Cut(rest, ",")
		if id != url.QueryEscape(s.id) || name != url.QueryEscape(key) {
			continue
		}
		token, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			continue
		}
		st, err := picket.New(s.Store).Inspect(ctx, key)
		if err == nil && (st.State == picket.StatusFree || st.Token != token) {
			continue
		}
		return exitf(exitUsage, "key %q is held by the picket run around this one (token %d): it would wait for itself; use another key, or run the command without picket", key, token)
	}
	return nil
}

// environ returns base with the variables of a granted lease behind it, in place of older values of theirs.
func (s *settings) environ(base []string, st *store, le *picket.Lease, deadline string) []string {
	held := strings.TrimSpace(lookup(base, heldVariable) + " " + heldEntry(st, le.Token(), le.Key()))
	own := []string{
		"PICKET_KEY=" + le.Key(),
		fmt.Sprintf("PICKET_TOKEN=%d", le.Token()),
		"PICKET_HOLDER=" + le.Holder().ID,
		"PICKET_TTL=" + short(s.ttl.value),
		heldVariable + "=" + held,
	}
	env := make([]string, 0, len(base)+len(own)+1)
	for _, v := range base {
		switch name, _, _ := strings.Cut(v, "="); name {
		case "PICKET_KEY", "PICKET_TOKEN", "PICKET_HOLDER", "PICKET_TTL", "PICKET_DEADLINE", heldVariable:
		case storeVariable:
			if st.export != "" {
				v = storeVariable + "=" + st.export
			}
			env = append(env, v)
		default:
			env = append(env, v)
		}
	}
	env = append(env, own...)
	if deadline != "" {
		env = append(env, "PICKET_DEADLINE="+deadline)
	}
	return env
}

// lookup returns the last value of name, which is the one that counts when there are several.
func lookup(env []string, name string) (value string) {
	for _, v := range env {
		if n, rest, ok := strings.Cut(v, "="); ok && n == name {
			value = rest
		}
	}
	return value
}
