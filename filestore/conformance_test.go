package filestore_test

import (
	"testing"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/filestore"
	"github.com/picket-go/picket/locktest"
)

func TestFilestoreConforms(t *testing.T) {
	s, err := filestore.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	locktest.Run(t, locktest.Config{
		// One client, because only the Store that acquired can release. Two claims of it exclude each other by the kernel's lock all the same.
		New:      func(*testing.T) picket.Store { return s },
		NoExpiry: true,
		NoQueue:  true,
	})
}

func BenchmarkFilestore(b *testing.B) {
	s, err := filestore.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	locktest.Benchmark(b, locktest.Config{
		New:      func(*testing.T) picket.Store { return s },
		NoExpiry: true,
		NoQueue:  true,
	})
}
