package redistest

import (
	"crypto/rand"
	"os"
	"sync"
	"testing"
)

// shared is the server of all tests of the process that ask for it. It is the one variable of the package, because no test outlives its cleanup and a
// process has no cleanup but [Main].
var shared struct {
	sync.Mutex
	managed bool // Main runs
	server  *Server
	dir     string
}

// Main runs the tests of a package and then ends the server of [Shared]. TestMain is: os.Exit(redistest.Main(m)).
func Main(m interface{ Run() int }) int {
	shared.Lock()
	shared.managed = true
	shared.Unlock()

	code := m.Run()

	shared.Lock()
	defer shared.Unlock()
	if shared.server != nil {
		shared.server.halt()
		shared.server = nil
		_ = os.RemoveAll(shared.dir) // It is in the system's temporary folder.
	}
	return code
}

// Name is new on each call, for keys and lock names on a server that keeps what other tests, and earlier runs of this one, have written.
func Name(t testing.TB) string {
	return t.Name() + "/" + rand.Text()[:8]
}

// Shared returns a server that all tests of the package use, each with keys of its own ([Name]). The first call starts it and [Main] ends it. A test must not
// flush it, and cannot stop it.
func Shared(t testing.TB) *Server {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if !shared.managed {
		t.Fatal("redistest.Shared needs a TestMain: os.Exit(redistest.Main(m))")
	}
	if shared.server == nil {
		dir, err := os.MkdirTemp("", "picket-redis-") //nolint:usetesting // It must outlive this test.
		if err != nil {
			t.Fatal(err)
		}
		server := &Server{t: t, dir: dir, shared: true}
		server.run()
		shared.server, shared.dir = server, dir
	}
	mine := *shared.server
	mine.t = t
	return &mine
}
