package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/picket-go/picket"
)

// keyStatus is the JSON of inspect and ls. Fields may be added; those that are here stay. The holder's claim id is not among them: it can release the lock.
type keyStatus struct {
	Key         string      `json:"key"`
	KeyBase64   []byte      `json:"key_base64,omitempty"` // if key is not UTF-8, which JSON cannot have
	State       string      `json:"state"`                // free, held or cooling
	Holder      *holderJSON `json:"holder"`
	Token       int64       `json:"token"` // of the last grant, 0 if there is none
	TTLms       *int64      `json:"ttl_ms"`
	RemainingMs *int64      `json:"remaining_ms"` // null: no clock ends it
	Waiters     *int        `json:"waiters"`      // null: the store cannot tell
}

type holderJSON struct {
	Host  string     `json:"host"`
	PID   int        `json:"pid"`
	Since *time.Time `json:"since"`
	Label string     `json:"label"`
}

func newKeyStatus(st picket.Status) keyStatus {
	k := keyStatus{Key: st.Key, State: st.State, Token: st.Token, TTLms: milliseconds(st.TTL), RemainingMs: milliseconds(st.Remaining)}
	if !utf8.ValidString(st.Key) {
		k.KeyBase64 = []byte(st.Key)
	}
	if h := st.Holder; h != (picket.Holder{}) {
		k.Holder = &holderJSON{Host: h.Host, PID: h.PID, Label: h.Label}
		if since := h.Since.UTC(); !since.IsZero() && since.Year() <= 9999 { // a damaged record may have a year that JSON has not
			k.Holder.Since = &since
		}
	}
	if st.Waiters >= 0 {
		k.Waiters = &st.Waiters
	}
	return k
}

func milliseconds(d time.Duration) *int64 {
	if d == picket.NoExpiry {
		return nil
	}
	ms := d.Milliseconds()
	return &ms
}

func (p *program) newInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [flags] KEY",
		Short: "Show who holds a key",
		Example: `  picket inspect nightly
  picket inspect --json nightly | jq -r .state
  picket inspect --store file:///var/lib/picket nightly`,
		Long: `A free key is no error: the exit code is 0 whenever the store has answered.

With --json one object is printed: key, state (free, held, cooling), holder (null, or host, pid, since,
label), token, ttl_ms, remaining_ms, waiters. What is null is unknown or has no limit. A key that is not UTF-8 comes in key_base64 too. Fields may be added.`,
		Args:              exactArgs("KEY"),
		ValidArgsFunction: p.completeKey,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := p.open()
			if err != nil {
				return err
			}
			st, err := picket.New(s.Store).Inspect(cmd.Context(), args[0])
			if err != nil {
				return s.refusal(err)
			}
			if asJSON {
				return writeJSON(p.out, newKeyStatus(st))
			}
			return written(fmt.Fprint(p.out, describe(st)))
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func describe(st picket.Status) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	line := func(name, value string) {
		if value != "" {
			_, _ = fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	h := st.Holder
	line("key", printable(st.Key))
	line("state", st.State)
	line("host", printable(h.Host))
	line("pid", positive(int64(h.PID)))
	line("label", printable(h.Label))
	line("since", when(h.Since))
	line("token", positive(st.Token))
	if st.State != picket.StatusFree {
		line("ttl", limit(st.TTL))
		line("remaining", limit(st.Remaining))
	}
	if st.Waiters > 0 {
		line("waiters", strconv.Itoa(st.Waiters))
	}
	_ = t.Flush() // into memory
	return b.String()
}

func positive(n int64) string {
	if n <= 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

func limit(d time.Duration) string {
	if d == picket.NoExpiry {
		return "until its processes end"
	}
	if d <= 0 {
		return ""
	}
	return d.Round(time.Millisecond).String()
}

// printable keeps a name that came from elsewhere from steering the terminal, and from breaking a line.
func printable(s string) string {
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}
