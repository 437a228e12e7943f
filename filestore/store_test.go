package filestore

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

func withNow(now func() time.Time) Option { return func(s *Store) { s.now = now } }

func withStep(step func(name, path string) error) Option { return func(s *Store) { s.step = step } }

func claim(key string) picket.Claim {
	host, _ := os.Hostname()
	id := rand.Text()
	return picket.Claim{ID: id, Key: key, TTL: time.Second, Holder: picket.Holder{ID: id, Host: host, PID: os.Getpid(), Label: "test"}}
}

// files is a Store under test.
type files struct {
	*Store
	t *testing.T
}

func open(t *testing.T, dir string, opts ...Option) files {
	t.Helper()
	s, err := New(dir, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return files{s, t}
}

func (f files) grant(c picket.Claim) picket.Grant {
	f.t.Helper()
	g, err := f.Acquire(f.t.Context(), c)
	if err != nil {
		f.t.Fatalf("Acquire(%q) = %v", c.Key, err)
	}
	if g.TTL != picket.NoExpiry || g.Waiters != -1 || g.Token <= 0 {
		f.t.Fatalf("Acquire(%q) = %+v", c.Key, g)
	}
	return g
}

func (f files) busy(key string) *picket.BusyError {
	f.t.Helper()
	g, err := f.Acquire(f.t.Context(), claim(key))
	b, ok := errors.AsType[*picket.BusyError](err)
	if !ok {
		f.t.Fatalf("Acquire(%q) = %+v, %v, want busy", key, g, err)
	}
	return b
}

func (f files) release(c picket.Claim) {
	f.t.Helper()
	if err := f.Release(f.t.Context(), c); err != nil {
		f.t.Fatalf("Release(%q) = %v", c.Key, err)
	}
}

func (f files) renewal(c picket.Claim) (err error) {
	f.Renew(f.t.Context(), []picket.Claim{c}, func(_ int, e error) { err = e })
	return err
}

func (f files) state(key, want string) picket.Status {
	f.t.Helper()
	st, err := f.Inspect(f.t.Context(), key)
	if err != nil || st.State != want {
		f.t.Fatalf("Inspect(%q) = %+v, %v, want %s", key, st, err, want)
	}
	return st
}

// eventually tries until ok: what another process does takes real time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("not in 20 s: " + what)
		}
	}
}

func (f files) only(want ...string) {
	f.t.Helper()
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var have []string
	for _, e := range entries {
		have = append(have, e.Name())
	}
	if strings.Join(have, " ") != strings.Join(want, " ") {
		f.t.Errorf("the directory has %q, want %q", have, want)
	}
}

func TestTheDirectoryIsMadeByTheFirstAcquire(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	s := open(t, dir)
	s.state("k", picket.StatusFree)
	for range s.List(t.Context(), "") {
		t.Error("a key is listed")
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("the directory is there before the first acquire: %v", err)
	}
	s.grant(claim("k"))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Fatalf("%v, %v", info, err)
	}
	s.only("k.json", "k.lock")
}

func TestNewRefusesWhatIsNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]error{"": picket.ErrInvalid, file: picket.ErrInvalid, file + "/below": picket.ErrRefused} {
		if _, err := New(dir); !errors.Is(err, want) || dir != "" && !strings.Contains(err.Error(), file) {
			t.Errorf("New(%q) = %v, want %v and the path", dir, err, want)
		}
	}
}

func TestNetworkFileSystemsAreRefusedUnlessAccepted(t *testing.T) {
	onNFS := func(s *Store) { s.networkType = func(string) (string, error) { return "NFS", nil } }
	_, err := New(t.TempDir()+"/new", onNFS)
	if !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), "NFS") || !strings.Contains(err.Error(), "WithNetworkFS") {
		t.Errorf("New = %v", err)
	}
	s := open(t, t.TempDir(), onNFS, WithNetworkFS())
	c := claim("k")
	s.grant(c)
	s.state("k", picket.StatusHeld)
	s.release(c)
	s.state("k", picket.StatusFree)
}

func TestUnsupportedFieldsAreNamed(t *testing.T) {
	s := open(t, t.TempDir())
	for word, change := range map[string]func(*picket.Claim){
		"LockDelay": func(c *picket.Claim) { c.LockDelay = time.Second },
		"weight":    func(c *picket.Claim) { c.Weight, c.Capacity = 1, 2 },
	} {
		c := claim("k")
		change(&c)
		if _, err := s.Acquire(t.Context(), c); !errors.Is(err, picket.ErrUnsupported) || !strings.Contains(err.Error(), word) {
			t.Errorf("Acquire = %v, want %s unsupported", err, word)
		}
	}
	s.only()
}

// L3, GL-01: a claim that is sent again is not busy by itself.
func TestTheSameClaimAgainGetsTheSameToken(t *testing.T) {
	s := open(t, t.TempDir())
	c := claim("k")
	if a, b := s.grant(c), s.grant(c); a.Token != b.Token {
		t.Errorf("tokens %d and %d", a.Token, b.Token)
	}
	s.release(c)
	s.state("k", picket.StatusFree)
}

// GL-11: two Stores of one process, and two claims of one Store, exclude each other as two processes do.
func TestStoresOfOneProcessExcludeEachOther(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	c := claim("k")
	g := a.grant(c)
	for _, s := range []files{a, b} {
		busy := s.busy("k")
		if busy.Holder.ID != c.ID || busy.Holder.Label != "test" || busy.Remaining != picket.NoExpiry || busy.Waiters != -1 {
			t.Errorf("busy: %+v", busy)
		}
		if st := s.state("k", picket.StatusHeld); st.Token != g.Token || st.Holder != busy.Holder || st.Remaining != picket.NoExpiry {
			t.Errorf("status: %+v", st)
		}
	}
	// L5, L18, GL-17: only the claim that holds can release, from any goroutine, and once.
	for _, wrong := range []error{b.Release(t.Context(), c), a.Release(t.Context(), claim("k")), b.renewal(c), a.renewal(claim("k"))} {
		if !errors.Is(wrong, picket.ErrLost) {
			t.Errorf("a call by another: %v, want lost", wrong)
		}
	}
	done := make(chan error)
	go func() { done <- a.Release(t.Context(), c) }()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	next := claim("k")
	if n := b.grant(next); n.Token <= g.Token {
		t.Errorf("token %d after %d", n.Token, g.Token)
	}
	if err := a.Release(t.Context(), c); !errors.Is(err, picket.ErrLost) {
		t.Errorf("second release: %v, want lost", err)
	}
	if err := b.renewal(next); err != nil {
		t.Errorf("the next lease was hurt: %v", err)
	}
}

func TestListYieldsHeldAndCoolingKeysSorted(t *testing.T) {
	s := open(t, t.TempDir())
	long := "p/" + strings.Repeat("Ä", 200)
	for _, key := range []string{"p/b", "p/\xff", "q", long, "p/free", "p/cool"} {
		c := claim(key)
		if key == "p/cool" {
			c.MinHold = time.Hour
		}
		s.grant(c)
		if key == "p/free" || key == "p/cool" {
			s.release(c)
		}
	}
	var keys []string
	for st, err := range s.List(t.Context(), "p/") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, st.Key+" "+st.State)
	}
	want := []string{"p/b held", "p/cool cooling", long + " held", "p/\xff held"}
	if strings.Join(keys, ",") != strings.Join(want, ",") {
		t.Errorf("List = %q, want %q", keys, want)
	}
}

func TestReissueMintsAboveAndLasts(t *testing.T) {
	s := open(t, t.TempDir())
	c := claim("k")
	s.grant(c)
	above := time.Now().Add(time.Hour).UnixMicro()
	g, err := s.Reissue(t.Context(), c, above)
	if err != nil || g.Token != above+1 {
		t.Fatalf("Reissue = %+v, %v", g, err)
	}
	if again := s.grant(c); again.Token != g.Token {
		t.Errorf("token %d, want %d", again.Token, g.Token)
	}
	s.release(c)
	if next := s.grant(claim("k")); next.Token != g.Token+1 {
		t.Errorf("token %d, want %d", next.Token, g.Token+1)
	}
}

// A record that is too long to be read back would lose its token: the next one could be smaller when the clock steps back.
func TestAHolderThatDoesNotFitIsRefusedAndTheLongestThatFitsIsReadBack(t *testing.T) {
	now := time.Now()
	s := open(t, t.TempDir(), withNow(func() time.Time { return now }))
	c := claim(strings.Repeat("\x01", maxKey))
	c.Holder.Host = ""
	c.Holder.Label = strings.Repeat("\x01", maxHolder+1-len(c.ID))
	if _, err := s.Acquire(t.Context(), c); !errors.Is(err, picket.ErrInvalid) {
		t.Errorf("too long: %v", err)
	}
	c.Holder.Label = c.Holder.Label[1:]
	first := s.grant(c)
	s.release(c)
	now = now.Add(-time.Hour)
	if g := s.grant(claim(c.Key)); g.Token <= first.Token {
		t.Errorf("token %d after %d", g.Token, first.Token)
	}
}
