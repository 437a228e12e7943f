package redistest_test

import (
	"testing"
	"time"

	"github.com/picket-go/picket/internal/redistest"
)

func TestSentinelsPromoteAReplica(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		cut    bool
		config redistest.SentinelConfig
		want   string
	}{
		"with what was written": {want: "late"},
		"without what was written behind the cut": {
			cut: true, want: "early",
			config: redistest.SentinelConfig{Replicas: 2, Servers: []redistest.Option{redistest.WithPassword("pw")}},
		},
		"in TLS": {want: "late", config: redistest.SentinelConfig{
			Servers: []redistest.Option{redistest.WithTLS(redistest.TLS{Mutual: true})}, Sentinels: []redistest.Option{redistest.WithPassword("pw2")},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartSentinels(t, test.config)
			old := s.Master()
			client := s.FailoverClient(t)
			conn := old.Client(t).Conn()
			defer conn.Close()
			write := func(value string, replicas int) {
				t.Helper()
				set(t, client, "k", value)
				if err := conn.Set(t.Context(), "other", value, 0).Err(); err != nil {
					t.Fatal(err)
				}
				if n, err := conn.Wait(t.Context(), replicas, 10*time.Second).Result(); err != nil || int(n) != replicas {
					t.Fatalf("WAIT = %d, %v", n, err)
				}
			}
			write("early", len(s.Replicas()))
			if test.cut {
				s.CutReplication()
				write("late", 0)
				for _, replica := range s.Replicas() {
					staysCut(t, replica)
				}
			} else {
				write("late", len(s.Replicas()))
			}
			old.Kill()
			if s.WaitPromoted(old) == old || s.Master() == old {
				t.Fatal("the old master is still the master")
			}
			wantValue(t, client, "k", test.want)
			if test.cut {
				s.HealReplication()
				s.WaitReplicas(1) // The other replica, which follows the new master.
			}
		})
	}
}

// staysCut waits for longer than a replica takes to connect again, which is a second.
func staysCut(t *testing.T, replica *redistest.Server) {
	t.Helper()
	var down string
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if down = replica.Info("replication")["master_link_down_since_seconds"]; down == "2" {
			return
		}
	}
	t.Errorf("the link to %s is down for %q seconds", replica.Addr(), down)
}
