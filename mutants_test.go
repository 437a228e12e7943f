package picket_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// mutant is the code with one rule switched off, and the violations one of which TestModel must report then.
type mutant struct {
	rule   string
	design string
	edits  []edit // more than one where another piece of code would catch what the rule lets through; the comment says which
	want   []string
}

// edit replaces the text old, which must stand in the file exactly once.
type edit struct{ file, old, new string }

// mutants are the rules marked ✗ in DESIGN 3.1 to 3.5, and what makes them whole. Two have none: the record's "max" is for a store whose clock can step back, memstore's is
// monotonic; the refusal of Reissue near 2^53 (DESIGN 3.7) is arithmetic, with a table in memstore.
var mutants = []mutant{
	{
		"the same claim gets its token by a read, and no time", "3.1",
		[]edit{{"memstore/acquire.go", "\t\tl.confirm(c, now)\n", "\t\tl.handed = nil\n"}},
		[]string{unfounded, twoTold},
	},
	{
		"an undone claim's late request is let in", "3.1",
		[]edit{{"memstore/acquire.go", "\tif err := s.undone(c, now); err != nil {\n\t\treturn picket.Grant{}, err\n\t}\n", ""}},
		[]string{ghost},
	},
	{
		"a release of a claim in doubt leaves no tombstone", "3.1",
		[]edit{{"release.go", "\tclaim.Doubt = l.doubt\n", ""}},
		[]string{ghost},
	},
	{
		"an undo of a claim in doubt leaves no tombstone", "3.1",
		[]edit{{"claim.go", "\tclaim.Doubt, claim.MinHold = p.doubt, 0\n", "\tclaim.MinHold = 0\n"}},
		[]string{ghost},
	},
	{
		"a claim in doubt that is lost is not undone", "3.1",
		[]edit{{"lease.go", "\t\tif claim.Doubt {\n", "\t\tif false {\n"}},
		[]string{orphan},
	},
	{
		"a failed acquire in doubt is not undone", "3.1",
		[]edit{{"claim.go", "\t}\n\tc.undo(ctx, p.undone())\n", "\t}\n"}},
		[]string{orphan, ghost},
	},
	{
		"doubt ends with the next answer", "3.1",
		[]edit{{"claim.go", "\tle := newLease(l, p, grant, t0)\n", "\tp.doubt = false\n\tle := newLease(l, p, grant, t0)\n"}},
		[]string{ghost, orphan},
	},
	{
		"an undone id is used again by TryAcquire", "3.1",
		[]edit{{"claim.go", "\t\tcase errors.Is(err, errLate):\n\t\t\tp = l.newPending(key, false)\n", ""}},
		[]string{refusal, ghost},
	},
	{
		"an undone id is used again by Acquire", "3.1",
		[]edit{{
			"line.go", "must not be asked without a pause\n\t\tq.place = nil\n", "must not be asked without a pause\n",
		}},
		[]string{refusal, ghost},
	},
	{
		"a grant that came too late is not undone", "3.1",
		[]edit{{"claim.go", "\t\tp.doubt = true // its hold at the store may be over: nothing of it may come back\n\t\tl.burn(ctx, p)\n", ""}},
		[]string{orphan},
	},
	{
		"a release that hands over leaves no tombstone", "3.1",
		[]edit{{"memstore/transfer.go", "\tif from.Doubt {\n", "\tif false {\n"}},
		[]string{ghost},
	},
	{
		"the deadline of a grant counts from the reply", "3.2",
		[]edit{{"claim.go", "\treturn l.answer(ctx, p, t0, grant, err)\n", "\treturn l.answer(ctx, p, t0+c.clock.now()-t0, grant, err)\n"}},
		[]string{unfounded, twoTold},
	},
	{
		"the deadline of a renewal counts from the reply", "3.2",
		[]edit{{"batch.go", "needed := n.lease.renewed(t0, n.claim.TTL, n.epoch, err, true)\n", "needed := n.lease.renewed(c.clock.now(), n.claim.TTL, n.epoch, err, true)\n"}},
		[]string{unfounded, twoTold},
	},
	{
		"a grant that comes after its own deadline is accepted", "3.2",
		[]edit{{"claim.go", "\tcase l.core.clock.exact() >= le.window.End:\n", "\tcase false:\n"}},
		[]string{lateGrant},
	},
	{
		"the same claim sets the time that is left, and may shorten it", "3.2",
		[]edit{{"memstore/lock.go", "\tl.rec.extend(c.TTL, now)\n", "\tl.rec.ends, l.rec.free = time.Time{}, time.Time{}\n\tl.rec.extend(c.TTL, now)\n"}},
		[]string{unfounded, twoTold},
	},
	{
		"a renewal sets the time that is left, and may shorten it", "3.2",
		[]edit{{"memstore/renew.go", "\tl.rec.extend(c.TTL, now)\n", "\tl.rec.ends, l.rec.free = now, now\n\tl.rec.extend(c.TTL, now)\n"}},
		[]string{unfounded, twoTold},
	},
	{
		// What a lost lease was lost for stays, and Check answers with it: a renewal alone would move the deadline of a lease that is ending.
		"a renewal that succeeds after the contexts have ended revives the lease", "3.2",
		[]edit{
			{"lease.go", "\tcase l.state >= StateEnding || l.release.begun: // a late success revives nothing\n", "\tcase l.state >= StateLost || l.release.begun:\n"},
			{"lease.go", "\tif l.state == StateJeopardy {\n\t\treturn l.change(StateHeld, nil)\n", "\tif l.state >= StateJeopardy {\n\t\tl.loss, l.cause, l.done = nil, nil, nil\n\t\treturn l.change(StateHeld, nil)\n"},
		},
		[]string{badState, badContext},
	},
	{
		"a renewal creates the record", "3.3",
		[]edit{{
			"memstore/renew.go", "\tl, err := s.own(c, now)\n\tif err != nil {\n\t\treturn err\n\t}\n",
			"\tl, err := s.own(c, now)\n\tif k := s.lock(c.Key, now); err != nil && k != nil && k.rec == nil {\n\t\tl, err = k, nil\n\t\ts.grant(l, c, now)\n\t} else if err != nil && k == nil {\n\t\tl, err = new(lock), nil\n\t\ts.locks.put(c.Key, l, now)\n\t\ts.grant(l, c, now)\n\t}\n\tif err != nil {\n\t\treturn err\n\t}\n",
		}},
		[]string{ghost, orphan},
	},
	{
		"a release does not mark the lease dead before it is sent", "3.3",
		[]edit{
			{"release.go", "\tl.release.begun, l.release.running = true, true\n", "\tl.release.running = true\n"},
			{"release.go", ", func() { l.core.renewer.remove(l) }", ""},
		},
		[]string{falseLoss, badState},
	},
	{
		"no is no, also in answer to a release that had an unanswered attempt", "3.5",
		[]edit{{"release.go", "\tworked := l.release.unheard && now < deadline\n", "\tworked := false && now < deadline\n"}},
		[]string{falseLoss},
	},
	{
		// A kept record is guarded three times: it has no id, it is nobody's, and it is not live.
		"a record that is kept for its MinHold is still its claim's", "3.5",
		[]edit{
			{"memstore/record.go", "\tr.claim.ID, r.kept = \"\", true\n", "\tr.kept = true\n"},
			{"memstore/record.go", "return r != nil && !r.kept && r.claim.ID == id", "return r != nil && r.claim.ID == id"},
			{"memstore/record.go", "return !r.kept && !r.broken && now.Before(r.ends)", "return !r.broken && now.Before(r.ends)"},
		},
		[]string{ghost},
	},
	{
		"a token is the time alone, by a clock of milliseconds", "3.7",
		[]edit{{"memstore/token.go", "\ttoken := max(last+1, now.UnixMicro())\n", "\ttoken := max(last, now.UnixMilli())\n"}},
		[]string{tokenOrder},
	},
	{
		"a waiter is told when it is handed the lock, without confirming", "3.6",
		[]edit{{"memstore/lock.go", "\tl.rec.ends = now.Add(min(w.claim.TTL, confirmWindow))\n\tl.rec.free = l.rec.ends\n", "\tl.rec.ends = now.Add(w.claim.TTL / 2)\n\tl.rec.free = l.rec.ends\n"}, {"memstore/acquire.go", "\t\tl.confirm(c, now)\n", "\t\tl.handed = nil\n"}},
		[]string{unfounded, twoTold},
	},
}

// mutantBudget is how long TestModel may look for one mutant's violation. Most are found within two seconds.
const mutantBudget = 40 * time.Second

// TestTheModelCatchesEveryRuleSwitchedOff builds the package once for each mutant, with go's -overlay, and wants TestModel to fail with one of the violations named there.
func TestTheModelCatchesEveryRuleSwitchedOff(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the package once for each mutant")
	}
	t.Parallel()
	busy := make(chan struct{}, 2)
	for _, m := range mutants {
		t.Run(m.rule, func(t *testing.T) {
			t.Parallel()
			busy <- struct{}{}
			defer func() { <-busy }()
			overlay := m.overlay(t)
			// -v, so that the violation is printed although a run that went wrong may end in a deadlock.
			test := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-timeout=90s", "-v", "-run", "^TestModel$", ".",
				"-args", fmt.Sprintf("-model.for=%s", mutantBudget))
			out, err := test.CombinedOutput()
			if err == nil {
				t.Fatalf("DESIGN %s: not caught in %s, want one of %q\n%s", m.design, mutantBudget, m.want, last(out))
			}
			found := slices.ContainsFunc(m.want, func(v string) bool { return strings.Contains(string(out), "VIOLATION "+v+":") })
			if !found {
				t.Fatalf("DESIGN %s: want one of %q\n%s", m.design, m.want, last(out))
			}
			for line := range strings.Lines(string(out)) {
				if _, violation, ok := strings.Cut(line, "VIOLATION "); ok {
					t.Logf("%s", strings.TrimSpace(violation))
				}
			}
		})
	}
}

// overlay writes the mutated files and returns the path of what go's -overlay wants.
func (m mutant) overlay(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := map[string]string{}
	for _, e := range m.edits {
		if text[e.file] == "" {
			b, err := os.ReadFile(filepath.FromSlash(e.file))
			if err != nil {
				t.Fatal(err)
			}
			text[e.file] = strings.ReplaceAll(string(b), "\r\n", "\n")
		}
		if n := strings.Count(text[e.file], e.old); n != 1 {
			t.Fatalf("%s has this %d times, want once: the mutant must be aimed again\n%s", e.file, n, e.old)
		}
		text[e.file] = strings.Replace(text[e.file], e.old, e.new, 1)
	}
	replace := map[string]string{}
	for file, mutated := range text {
		from, err := filepath.Abs(filepath.FromSlash(file))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(dir, filepath.Base(file))
		if err := os.WriteFile(to, []byte(mutated), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[from] = to
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	overlay := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}

// last is the end of a long output.
func last(out []byte) string {
	const room = 4000
	if len(out) > room {
		return "…" + string(out[len(out)-room:])
	}
	return string(out)
}
