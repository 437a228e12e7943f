//go:build unix

package filestore

import (
	"bufio"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// rising reads a log of tokens, in the order in which they were held, and fails unless they rise.
func rising(t *testing.T, log string) []int64 {
	t.Helper()
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tokens []int64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if len(tokens) > 0 && n <= tokens[len(tokens)-1] {
			t.Errorf("token %d follows %d", n, tokens[len(tokens)-1])
		}
		tokens = append(tokens, n)
	}
	return tokens
}

func TestManyProcessesHoldAKeyOneByOneWithRisingTokens(t *testing.T) {
	const processes, rounds = 6, 25
	dir, log := t.TempDir(), t.TempDir()
	var ps []*proc
	for range processes {
		ps = append(ps, start(t, "race", dir, log, strconv.Itoa(rounds), "0s", "k"))
	}
	for _, p := range ps {
		p.finish()
	}
	if n := len(rising(t, filepath.Join(log, "k"))); n != processes*rounds {
		t.Errorf("%d grants, want %d", n, processes*rounds)
	}
}

func TestProcessesKilledAnywhereLeaveNothingHeldAndTokensRise(t *testing.T) {
	dir, log := t.TempDir(), t.TempDir()
	steady := start(t, "race", dir, log, "150", "0s", "k")
	for range 25 {
		p := start(t, "race", dir, log, "1000000", "0s", "k")
		if _, err := p.out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.N(int64(20 * time.Millisecond)))) // into its work
		p.kill()
	}
	steady.finish()
	tokens := rising(t, filepath.Join(log, "k"))
	s := open(t, dir)
	s.state("k", "free")
	if g := s.grant(claim("k")); g.Token <= slices.Max(tokens) {
		t.Errorf("token %d after %d", g.Token, slices.Max(tokens))
	}
}

// A process whose clock is days ahead takes all that is not locked for old and cleans it up while the others make it anew.
func TestCleanUpMeetsCreationWithoutHarm(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e"}
	for range 10 { // a busy machine may run them one after the other: then all keys are there before anybody could find a new one, and an old one beside it
		dir, log := t.TempDir(), t.TempDir()
		var ps []*proc
		for i := range 5 {
			ahead := "0s"
			if i < 2 {
				ahead = "72h"
			}
			ps = append(ps, start(t, "race", append([]string{dir, log, "80", ahead}, keys...)...))
		}
		for _, p := range ps {
			p.finish()
		}
		for _, key := range keys {
			rising(t, filepath.Join(log, key))
		}
		if floor, err := open(t, dir).floor(); err == nil && floor > 0 {
			return
		}
	}
	t.Error("nothing was cleaned up")
}

func TestACrashAtAnyStepFreesTheKeyAndNoTokenIsTwice(t *testing.T) {
	for _, at := range []struct {
		step    string
		n       string
		minHold string
		told    bool // the token was returned
	}{
		{"open", "1", "0s", false},
		{"locked", "1", "0s", false},
		{"temp", "1", "0s", false},
		{"write", "1", "0s", false},
		{"sync", "1", "0s", false},
		{"rename", "1", "0s", false},
		{"syncdir", "1", "0s", false},
		{"written", "1", "0s", false},
		{"unlock", "1", "0s", true},
		{"temp", "2", "1h", true},
		{"write", "2", "1h", true},
		{"sync", "2", "1h", true},
		{"rename", "2", "1h", true},
	} {
		t.Run(at.step+at.n, func(t *testing.T) {
			dir := t.TempDir()
			ahead := open(t, dir, withNow(func() time.Time { return time.Now().Add(time.Hour) })) // so that no later token is larger by time alone
			c := claim("k")
			last := ahead.grant(c).Token
			ahead.release(c)

			p := start(t, "crash", dir, "k", at.minHold, at.step, at.n)
			if at.told {
				last = p.number()
			}
			if err := p.Wait(); err == nil {
				t.Fatal("it did not crash")
			}
			s := open(t, dir)
			if st := s.state("k", "free"); st.Token < last {
				t.Errorf("the last token is %d, want %d", st.Token, last)
			}
			c = claim("k")
			if g := s.grant(c); g.Token <= last {
				t.Errorf("token %d after %d", g.Token, last)
			}
			s.release(c)
			s.only("k.json", "k.lock")
		})
	}
}

func TestACrashAfterTheMinHoldWasWrittenLeavesTheKeyCooling(t *testing.T) {
	dir := t.TempDir()
	p := start(t, "crash", dir, "k", "1h", "unlock", "1")
	_ = p.number()
	_ = p.Wait()
	s := open(t, dir)
	s.state("k", "cooling")
	s.busy("k")
}

func TestACrashInCleanUpForgetsNoToken(t *testing.T) {
	for n := range 3 {
		dir := t.TempDir()
		s := open(t, dir, withNow(func() time.Time { return time.Now().Add(time.Hour) }))
		c := claim("k")
		last := s.grant(c).Token
		s.release(c)
		age(t, dir)
		p := start(t, "crash", dir, "new", "0s", "remove", strconv.Itoa(n+1))
		if err := p.Wait(); err == nil {
			t.Fatal("it did not crash")
		}
		if g := open(t, dir).grant(claim("k")); g.Token <= last {
			t.Errorf("step %d: token %d after %d", n, g.Token, last)
		}
	}
}
