//go:build unix

package filestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket"
)

// age makes all files in dir three days old.
func age(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-72 * time.Hour)
	for _, e := range entries {
		if err := os.Chtimes(filepath.Join(dir, e.Name()), then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// F2 for files: one-shot names do not pile up, and their tokens rise all the same, also when the clock has stepped back.
func TestOldKeysAreForgottenButNotTheirTokens(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	s := open(t, dir, withNow(func() time.Time { return now }))
	var last int64
	for i := range 10 {
		c := claim(fmt.Sprint("job-", i))
		last = max(last, s.grant(c).Token)
		s.release(c)
	}
	age(t, dir)
	now = now.Add(-time.Hour)
	for i := range 3 {
		s.grant(claim(fmt.Sprint("new-", i)))
	}
	s.only("new-0.json", "new-0.lock", "new-1.json", "new-1.lock", "new-2.json", "new-2.lock", "~floor.json", "~floor.lock")
	for i := range 10 {
		if g := s.grant(claim(fmt.Sprint("job-", i))); g.Token <= last {
			t.Errorf("token %d after %d", g.Token, last)
		}
	}
}

func TestCleanUpSparesWhatIsInUse(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir), open(t, dir)
	heldKey, cool, fresh := claim("held"), claim("cool"), claim("fresh")
	cool.MinHold = 100 * time.Hour
	for _, c := range []picket.Claim{heldKey, cool} {
		s.grant(c)
	}
	s.release(cool)
	age(t, dir)
	s.grant(fresh)
	s.release(fresh)
	other.grant(claim("new"))
	for name, want := range map[string]string{"held": picket.StatusHeld, "cool": picket.StatusCooling, "fresh": picket.StatusFree} {
		if st := s.state(name, want); st.Token == 0 {
			t.Errorf("%q was forgotten", name)
		}
	}
	if err := s.renewal(heldKey); err != nil {
		t.Error(err)
	}
}

// What an operator or a loss of power may leave: a lock file alone, a record alone, a temporary file, a damaged record.
func TestCleanUpTakesLeftoversAndStrangersStay(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"alone.lock", "half.tmp", "half.lock", "bad.json", "bad.lock", "README", "sub.d"} {
		text := "{"
		if filepath.Ext(name) == lockSuffix {
			text = ""
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	age(t, dir)
	s := open(t, dir)
	s.grant(claim("new"))
	s.only("README", "new.json", "new.lock", "sub.d", "~floor.json", "~floor.lock")
}

// A directory of another program, such as a project's or /var/lock: its files are neither removed nor overwritten.
func TestFilesOfOtherProgramsStay(t *testing.T) {
	dir := t.TempDir()
	files := map[string]string{"package.json": `{"name":"app"}`, "yarn.lock": "# yarn lockfile v1", "notes.tmp": "draft", "job.tmp": "precious"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "daemon.lock"), nil, 0o644); err != nil { //nolint:gosec // as touch(1) makes it
		t.Fatal(err)
	}
	s := open(t, dir)
	for i := range 3 {
		age(t, dir)
		s.grant(claim(fmt.Sprint("new-", i)))
	}
	for _, key := range []string{"package", "job"} {
		_, err := s.Acquire(t.Context(), claim(key))
		if !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), key+".") || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("Acquire(%q) = %v, want refused, the file and what to do", key, err)
		}
	}
	for _, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Errorf("List yields %v", err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "daemon.lock")); err != nil {
		t.Error(err)
	}
	for name, want := range files {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != want {
			t.Errorf("%s is now %q, %v", name, text, err)
		}
	}
}

// Disk images, and files that are being downloaded, begin with zeros.
func TestWhatBeginsWithZerosMayBeOfOthers(t *testing.T) {
	dir := t.TempDir()
	image := append(make([]byte, maxRecord), "data"...)
	short := append(make([]byte, 100), "data"...)
	files := map[string][]byte{"disk.tmp": image, "data.json": image, "old.tmp": image, "short.tmp": short}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	for _, key := range []string{"disk", "short", "data"} {
		if _, err := s.Acquire(t.Context(), claim(key)); !errors.Is(err, picket.ErrRefused) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"new-1", "new-2", "new-3"} {
		age(t, dir)
		s.grant(claim(key))
	}
	for name, want := range files {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != string(want) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// A key that is only being looked at is not busy: the loser waits for a moment.
func TestACleanerIsNotTakenForAHolder(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	c := claim("k")
	s.grant(c)
	s.release(c)
	l, ok, err := s.lockPlace(s.place("k"))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	freed := make(chan error)
	go func() {
		time.Sleep(3 * glance) // within the moment
		freed <- l.unlock()
	}()
	s.grant(claim("k"))
	if err := <-freed; err != nil {
		t.Fatal(err)
	}
}

// A lock on a file that was removed after it was opened excludes nobody: the attempt begins again with the file that is in place.
func TestALockOnAnUnlinkedFileIsNone(t *testing.T) {
	dir := t.TempDir()
	other := open(t, dir)
	for _, regrant := range []bool{true, false} {
		meddle := true
		s := open(t, dir, withStep(func(name, path string) error {
			if name == "locked" && meddle {
				meddle = false
				if err := os.Remove(path); err != nil {
					return err
				}
				if regrant {
					other.grant(claim("k"))
				}
			}
			return nil
		}))
		if regrant {
			s.busy("k")
			continue
		}
		c := claim("fresh")
		s.grant(c)
		if err := s.renewal(c); err != nil {
			t.Error(err)
		}
	}
}

// A key may come back into use while it is about to be forgotten: neither its files nor a token above the floor may go.
func TestAKeyThatIsUsedWhileItIsForgottenStays(t *testing.T) {
	for _, again := range []bool{false, true} {
		dir := t.TempDir()
		other := open(t, dir)
		use := func() (token int64) {
			c := claim("k")
			token = other.grant(c).Token
			other.release(c)
			return token
		}
		use()
		age(t, dir)
		var last int64
		s := open(t, dir, withStep(func(name, path string) error {
			if name == "open" && filepath.Base(path) == "k.lock" && last == 0 {
				last = use()
				if again {
					age(t, dir)
				}
			}
			return nil
		}))
		s.grant(claim("new"))
		if st := s.state("k", picket.StatusFree); last == 0 || st.Token != last {
			t.Errorf("token %d after the sweep, want %d", st.Token, last)
		}
	}
}
