package locktest_test

import (
	"testing"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/filestore"
	"github.com/picket-go/picket/locktest"
	"github.com/picket-go/picket/memstore"
)

func TestMemstoreKeepsTheContract(t *testing.T) {
	locktest.Run(t, memory())
}

func TestFilestoreKeepsTheContract(t *testing.T) {
	locktest.Run(t, files(t))
}

func BenchmarkMemstore(b *testing.B) { locktest.Benchmark(b, memory()) }

func memory() locktest.Config {
	store := memstore.New()
	return locktest.Config{New: func(*testing.T) picket.Store { return store }}
}

func files(t *testing.T) locktest.Config {
	t.Helper()
	store, err := filestore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return locktest.Config{
		New:      func(*testing.T) picket.Store { return store }, // only the Store that acquired can release
		NoExpiry: true,
		NoQueue:  true,
	}
}
