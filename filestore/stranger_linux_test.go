package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/picket-go/picket"
)

// unprivileged runs do as a user whom permissions bind: root's own thread becomes nobody's for files, and ends with do.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	const nobody = 65534
	done := make(chan error)
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			runtime.LockOSThread()
			if err := unix.Setfsuid(nobody); err != nil {
				done <- err
				return
			}
		}
		do()
	}()
	if err := <-done; err != nil {
		t.Skip("cannot become another user: ", err)
	}
}

// shared returns a directory with this mode that everybody can reach.
func shared(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, mode)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	return dir
}

func TestAParentThatCannotBeReadIsEnough(t *testing.T) {
	dir := shared(t, 0o333)
	unprivileged(t, func() {
		s, err := New(filepath.Join(dir, "locks"))
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
			t.Errorf("the first Acquire = %v", err)
		}
	})
}

func TestListGoesOnBehindARecordOfAnotherUser(t *testing.T) {
	dir := shared(t, 0o777)
	theirs := filepath.Join(dir, "a.json")
	if err := os.WriteFile(theirs, []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	unprivileged(t, func() {
		s, err := New(dir)
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
			t.Errorf("Acquire = %v", err)
		}
		var seen []string
		for st, err := range s.List(t.Context(), "") {
			if err == nil {
				seen = append(seen, st.Key)
			} else if seen = append(seen, "error"); !errors.Is(err, picket.ErrRefused) || !strings.Contains(err.Error(), theirs) {
				t.Errorf("List yields %v", err)
			}
		}
		if strings.Join(seen, " ") != "k error" {
			t.Errorf("List yields %q", seen)
		}
	})
}
