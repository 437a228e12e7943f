package redisstore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// memberVariable has the orders of a process that a test starts; without it this program runs tests.
const memberVariable = "PICKET_REDISSTORE_MEMBER"

// orders are what a member is for.
type orders struct {
	Role    string
	Addr    string // of the server, or those of the nodes of a Cluster with commas between
	Keys    []string
	Stores  int // how many clients, each with a Store and a Locker
	TTL     time.Duration
	Witness string // a file
	Seed    uint64
}

// slow is how many times longer than promised things may take under the race detector: it makes each process five to ten times as slow, and the processors are shared.
func slow(d time.Duration) time.Duration {
	if raceDetector {
		return 3 * d
	}
	return d
}

// member is a process that takes part in a test: this program, in a role. It ends with its standard input, so also with the test, however that ends.
type member struct {
	t    testing.TB
	cmd  *exec.Cmd
	in   io.WriteCloser
	says chan string
	err  strings.Builder
}

func enlist(t testing.TB, o orders) *member {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{t: t, says: make(chan string, 4096)}
	m.cmd = exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMember$", "-test.count=1") //nolint:gosec // It is this program.
	m.cmd.Env = append(os.Environ(), memberVariable+"="+string(text))
	m.cmd.Stderr = &m.err
	if m.in, err = m.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := m.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(m.says)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if word, ok := strings.CutPrefix(lines.Text(), "> "); ok {
				m.says <- word
			} else if lines.Text() != "PASS" {
				t.Logf("process %d: %s", m.cmd.Process.Pid, lines.Text())
			}
		}
	})
	t.Cleanup(func() {
		m.kill()
		for range m.says { // the reader must not hang
		}
		reader.Wait()
		_ = m.cmd.Wait()
	})
	return m
}

// hear waits for what the member says next, and returns what follows the word.
func (m *member) hear(word string, d time.Duration) string {
	m.t.Helper()
	select {
	case line, ok := <-m.says:
		said, rest, _ := strings.Cut(line, " ")
		if !ok || said != word {
			m.t.Fatalf("process %d says %q, want %q", m.cmd.Process.Pid, line, word)
		}
		return rest
	case <-time.After(d):
		m.t.Fatalf("process %d does not say %q in %v", m.cmd.Process.Pid, word, d)
	}
	return ""
}

// tell sends the member a line.
func (m *member) tell(line string) {
	m.t.Helper()
	if _, err := fmt.Fprintln(m.in, line); err != nil {
		m.t.Fatal(err)
	}
}

// kill is SIGKILL: nothing is cleaned up, and the kernel closes the connections.
func (m *member) kill() { _ = m.cmd.Process.Kill() } // It fails only when the process is gone already.

// TestMember is the main function of members, and no test.
func TestMember(t *testing.T) {
	text := os.Getenv(memberVariable)
	if text == "" {
		return
	}
	r := &recruit{T: t, told: make(chan string, 16)}
	if err := json.Unmarshal([]byte(text), &r.orders); err != nil {
		t.Fatal(err)
	}
	go func() {
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			r.told <- lines.Text()
		}
		os.Exit(0) // the test is over
	}()
	roles[r.Role](r)
}

var roles = map[string]func(*recruit){
	"hold":   (*recruit).hold,
	"wait":   (*recruit).wait,
	"freeze": (*recruit).freeze,
	"storm":  (*recruit).storm,
}

// recruit is a member as it sees itself.
type recruit struct {
	*testing.T
	orders
	told chan string
	mu   sync.Mutex
}

func (r *recruit) say(words ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Println(append([]any{">"}, words...)...)
}

// joins is a Store on a client of its own.
func (r *recruit) joins() *redisstore.Store {
	s, err := redisstore.New(redis.NewUniversalClient(&redis.UniversalOptions{Addrs: strings.Split(r.Addr, ",")}))
	if err != nil {
		r.Fatal(err)
	}
	return s
}

// hold acquires each key and says so. It never releases.
func (r *recruit) hold() {
	l := picket.New(r.joins(), picket.WithTTL(r.TTL))
	for _, key := range r.Keys {
		lease, err := l.Acquire(r.Context(), key)
		if err != nil {
			r.Fatal(err)
		}
		r.say("holds", lease.Token())
	}
	<-r.told
}

// wait waits with each of its Stores for the first key, releases it at once, and says when.
func (r *recruit) wait() {
	var wg sync.WaitGroup
	for range r.Stores {
		l := picket.New(r.joins(), picket.WithTTL(r.TTL))
		wg.Go(func() {
			lease, err := l.Acquire(r.Context(), r.Keys[0])
			if err != nil {
				r.Error(err)
				return
			}
			r.say("granted", lease.Token())
			if err := lease.Release(r.Context()); err != nil {
				r.Error(err)
			}
		})
	}
	wg.Wait()
}

// freeze waits for the first key, and stands still when it is woken.
func (r *recruit) freeze() {
	s := &attentive{Store: r.joins()}
	s.woken = func() {
		r.say("woken")
		s.frozen.Lock()
	}
	_, _ = picket.New(s, picket.WithTTL(r.TTL)).Acquire(r.Context(), r.Keys[0])
}

// attentive is a Store that calls woken before it passes a wake-up on.
type attentive struct {
	*redisstore.Store
	woken  func()
	frozen sync.Mutex
}

func (s *attentive) Acquire(ctx context.Context, c picket.Claim) (picket.Grant, error) {
	s.frozen.Lock()
	defer s.frozen.Unlock()
	return s.Store.Acquire(ctx, c)
}

func (s *attentive) Watch(ctx context.Context, c picket.Claim) (<-chan struct{}, func(), error) {
	heard, stop, err := s.Store.Watch(ctx, c)
	if err != nil {
		return nil, nil, err
	}
	wake, ended := make(chan struct{}, 1), make(chan struct{})
	go func() {
		for {
			select {
			case <-heard:
				s.woken()
				select {
				case wake <- struct{}{}:
				default:
				}
			case <-ended:
				return
			}
		}
	}()
	return wake, sync.OnceFunc(func() { close(ended); stop() }), nil
}

// waiting waits until the server counts n waiters for the key.
func waiting(t testing.TB, s picket.Store, key string, n int) {
	t.Helper()
	last := -1
	if !eventually(slow(10*time.Second), func() bool {
		st, err := s.Inspect(t.Context(), key)
		last = st.Waiters
		return err == nil && last >= n
	}) {
		t.Fatalf("%d of %d wait for %q", last, n, key)
	}
}

// listening waits until n subscription connections are open.
func listening(t testing.TB, server *redistest.Server, n int) {
	t.Helper()
	c := server.Client(t)
	if !eventually(slow(10*time.Second), func() bool { return subscriptions(t, c) == fmt.Sprint(n) }) {
		t.Fatalf("%s of %d listen", subscriptions(t, c), n)
	}
}
