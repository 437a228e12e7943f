package picket_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The violations that the model can report. The mutants test looks for these words.
const (
	twoTold      = "TWO TOLD"         // two holders of one key may work at once
	tokenOrder   = "TOKEN ORDER"      // a token twice, or not above one that was told before its claim was first sent
	ghost        = "GHOST"            // a claim has the key, or a place in its queue, after its own clean-up took effect
	orphan       = "ORPHAN"           // a claim was granted, is over for its client, and nobody cleans up
	falseLoss    = "FALSE LOSS"       // ErrLost although the key was ours all the time
	falseRelease = "FALSE RELEASE"    // a release returned nil, and none of it took effect
	unfounded    = "UNFOUNDED BELIEF" // Check is nil, or Remaining more, than the store's record bears out
	lateGrant    = "LATE GRANT"       // a lease was told of when it was over
	refusal      = "REFUSAL"          // an error that a client without fault must never see
	stuck        = "STUCK"            // something took longer than its bound
	badState     = "BAD STATE"        // a change of state that is not legal, or not in order
	badContext   = "BAD CONTEXT"      // Check and Done disagree
	outOfOrder   = "OUT OF ORDER"     // somebody was served before a live waiter that was due
	leftLying    = "LEFT LYING"       // the key is free and nobody handed it to the waiter that was due
	toTheDead    = "TO THE DEAD"      // the lock was handed to a waiter that is known not to come
	longTurn     = "LONG TURN"        // a process handed the key on among its own for longer than it may
	longWindow   = "LONG WINDOW"      // a hand-off that nobody has confirmed lasts for longer than it may
	notItsOwn    = "NOT ITS OWN"      // a claim was renewed, released or handed on although it held nothing
	wrongName    = "WRONG NAME"       // a busy answer names somebody else than who has the key now
)

// journal is what happened, for whoever has to understand a violation, and the violations. Its mutex is taken last.
type journal struct {
	t     *testing.T
	test  string
	seed  uint64
	began time.Time

	mu    sync.Mutex
	lines []string
	names map[string]int // claim ids are long: the trace numbers them
	bad   bool
}

func (j *journal) name(id string) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.names[id] == 0 {
		j.names[id] = len(j.names) + 1
	}
	return fmt.Sprintf("claim%d", j.names[id])
}

func (j *journal) log(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.bad {
		j.lines = append(j.lines, fmt.Sprintf("%11.6f ", time.Since(j.began).Seconds())+fmt.Sprintf(format, args...))
	}
}

// violation reports the first of a run with its trace; what follows is a consequence.
func (j *journal) violation(kind, format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.bad {
		return
	}
	j.bad = true
	what := fmt.Sprintf(format, args...)
	j.t.Errorf("VIOLATION %s: %s\nat %s of the run; its plan again: go test -run '^%s$' . -args -model.seed=%d\n%s",
		kind, what, time.Since(j.began), j.test, j.seed, strings.Join(j.excerpt(what), "\n"))
}

// excerpt is the last lines, and the earlier ones about the claims that what names.
func (j *journal) excerpt(what string) (lines []string) {
	claims := regexp.MustCompile(`\bclaim[0-9]+\b`).FindAllString(what, -1)
	for i, line := range j.lines {
		named := slices.ContainsFunc(claims, func(c string) bool { return strings.Contains(line+" ", c+" ") || strings.Contains(line, c+":") })
		if named || i >= len(j.lines)-60 {
			lines = append(lines, line)
		}
	}
	return lines
}

func (j *journal) failed() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.bad
}
