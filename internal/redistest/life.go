package redistest

import (
	"os"
	"path/filepath"
	"time"
)

// Stop has the system suspend the process (SIGSTOP): its connections stay open, and nothing answers. Cont ends that.
func (s *Server) Stop() {
	s.t.Helper()
	s.own()
	s.must(s.process.pause())
	s.process.stopped.Store(true)
}

// Cont ends Stop (SIGCONT).
func (s *Server) Cont() {
	s.t.Helper()
	s.must(s.process.resume())
	s.process.stopped.Store(false)
}

// Kill ends the process at once (SIGKILL), also when it is stopped. What it has written to an append-only file stays.
func (s *Server) Kill() {
	s.t.Helper()
	s.own()
	s.process.kill()
}

// Shutdown ends the process in order (SIGTERM), and waits for that.
func (s *Server) Shutdown() {
	s.t.Helper()
	s.own()
	s.must(s.process.terminate())
	select {
	case <-s.process.done:
	case <-time.After(startLimit):
		s.t.Fatal("the server does not end")
	}
}

// Restart ends the process if it runs, and starts it again at the same address. With keepData a running server is told to save everything first, and one that
// is down already has what it wrote before. Without, it comes back empty. Either way a node of a cluster knows its cluster.
func (s *Server) Restart(keepData bool) {
	s.t.Helper()
	s.own()
	if keepData && !s.process.gone() {
		s.save()
	}
	s.halt()
	if !keepData {
		for _, data := range []string{"dump.rdb", "appendonlydir"} {
			s.must(os.RemoveAll(filepath.Join(s.dir, data)))
		}
	}
	s.must(s.launch())
}

// save writes a snapshot, which a start without an append-only file reads. With one, SIGTERM has the file written out.
func (s *Server) save() {
	s.t.Helper()
	persistence, err := s.info("persistence")
	s.must(err)
	if persistence["aof_enabled"] == "1" {
		s.Shutdown()
		return
	}
	s.must(s.admin.Save(s.context()).Err())
}

// own ends a test that would stop the server of others, and tells the cluster of one that may.
func (s *Server) own() {
	s.t.Helper()
	if s.shared {
		s.t.Fatal("other tests use the shared server: take redistest.Start")
	}
	if s.cluster != nil {
		s.cluster.disturbed()
	}
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}
