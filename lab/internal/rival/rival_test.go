package rival_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/picket-go/picket/lab/internal/rival"
	"github.com/picket-go/picket/lab/internal/server"
)

func start(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.Start(t.Context())
	if errors.Is(err, server.ErrMissing) && os.Getenv("CI") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// It shows that the round trips of all are counted in the same way, however much their scripts call: each pair is two.
func TestEachPairIsTwoRoundTrips(t *testing.T) {
	t.Parallel()
	for _, r := range rival.All() {
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			client, err := r.Open(s.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			pairs := func(n int) (roundTrips int64) {
				before, err := s.Calls(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for range n {
					if err := client.Do(t.Context(), "k", func() {}); err != nil {
						t.Fatal(err)
					}
				}
				after, err := s.Calls(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				return r.RoundTrips(after) - r.RoundTrips(before)
			}
			pairs(1) // loads scripts
			if got := pairs(50); got != 100 {
				t.Errorf("50 pairs are %d round trips, want 100", got)
			}
		})
	}
}

func TestEveryRivalWaitsAndIsFreeAgain(t *testing.T) {
	t.Parallel()
	for _, r := range rival.All() {
		if !r.Waits {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			var clients []rival.Client
			for range 2 {
				c, err := r.Open(s.Addr)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				clients = append(clients, c)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			waited := make(chan error, 1)
			released := make(chan struct{})
			err := clients[0].Do(ctx, "k", func() {
				short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
				defer cancel()
				if err := clients[1].Do(short, "k", func() { t.Error("two were inside") }); err == nil {
					t.Error("a busy lock was granted")
				}
				go func() { waited <- clients[1].Do(ctx, "k", func() { <-released }) }()
			})
			close(released)
			if err := errors.Join(err, <-waited); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestSelectKeepsTheOrderAndNamesTheChoice(t *testing.T) {
	t.Parallel()
	got, err := rival.Select([]string{"raw", "picket"})
	if err != nil || len(got) != 2 || got[0].Name != "picket" || got[1].Name != "raw" {
		t.Errorf("Select = %v, %v", got, err)
	}
	if _, err := rival.Select([]string{"chubby"}); err == nil {
		t.Error("an unknown rival was selected")
	}
}
