package filestore

import "os"

// process is one, so exactly that another which gets its pid is not taken for it.
type process struct {
	Host      string `json:"host,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Start     uint64 `json:"start,omitempty"`         // in ticks since boot; 0 where the system does not tell
	Namespace string `json:"pid_namespace,omitempty"` // in which PID is one; "" where there is none
}

type fate int

const (
	untold fate = iota // it is of another machine or container
	alive
	dead
)

func self() process {
	p := process{PID: os.Getpid(), Namespace: pidNamespace()}
	p.Host, _ = os.Hostname()
	p.Start, _ = startOf(p.PID)
	return p
}

// fate tells whether p goes on, as far as the process self can see.
func (p process) fate(self process) fate {
	if p.PID == 0 || p.Host != self.Host || p.Namespace != self.Namespace {
		return untold
	}
	if !exists(p.PID) {
		return dead
	}
	if start, ok := startOf(p.PID); !ok || p.Start != 0 && start != 0 && start != p.Start {
		return dead
	}
	return alive
}
