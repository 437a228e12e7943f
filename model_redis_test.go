package picket_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/internal/virtualredis"
	"github.com/picket-go/picket/redisstore"
)

var modelRedisFor = flag.Duration("model.redis.for", 8*time.Second, "TestRedisModel: go on for so long (a quarter with -short)")

// TestRedisModel is TestModel with a redisstore for each process, on its own go-redis client, and one miniredis. In half of the runs the network below go-redis fails too:
// it drops, delays and repeats requests and replies, resets connections, and is a black hole. In half of them the server's clock steps back now and then.
//
// Cases: as TestModel, and L17 W2 W3 W4 Q1 Q4 GL-37 GL-40.
func TestRedisModel(t *testing.T) {
	logging.Disable() // go-redis tells of each dial that fails
	model(t, *modelRedisFor, newRedisHost)
}

// redisHost is one Redis server. It enters what scripts do at the moment when they do it, so that it does not matter on which way a request came, or how late.
type redisHost struct {
	w      *world
	server *virtualredis.Server
	links  bool // the network below the stores fails
	steps  bool // the server's clock steps back
	back   time.Duration
	ops    map[string]string // what each script is for, by its hash
	teach  string            // the script that comes now is for this

	mu       sync.Mutex
	networks map[*process]*network
}

// network is the way of one process to the server.
type network struct {
	proxy  *redistest.Proxy
	client *redis.Client
	store  *redisstore.Store
	faults uint64 // weathers so far
}

func newRedisHost(w *world) host {
	// go-redis keeps timers for later, also those of the bubble before this one. A pool is empty after two collections.
	runtime.GC()
	runtime.GC()
	h := &redisHost{
		w: w, server: virtualredis.Start(w.t), links: aimed("links") || w.d.one(2) && !aimed("wakes"), steps: w.d.one(2) || aimed("steps"),
		ops: map[string]string{}, networks: map[*process]*network{},
	}
	if h.links {
		w.wakes = false // go-redis dials subscriptions under a mutex, so that a black hole would stop the bubble's clock
	}
	h.server.Server().SetPreHook(h.request)
	h.learn()
	return h
}

func (h *redisHost) remote() bool { return true }

func (h *redisHost) now() time.Time { return time.Now().Add(-h.back) }

func (h *redisHost) connect(p *process) fullStore {
	n := &network{proxy: redistest.NewProxy(h.w.t, func() (net.Conn, error) {
		if p.dead.Load() {
			return nil, errCut // in a black hole it would wait under a mutex of go-redis, and with it the bubble
		}
		return h.server.Dial()
	}, h.w.seed)}
	n.client = h.server.ClientVia(h.w.t, n.proxy)
	store, err := redisstore.New(n.client)
	if err != nil {
		h.w.t.Fatal(err)
	}
	n.store = store
	p.below = h.links
	h.mu.Lock()
	defer h.mu.Unlock()
	h.networks[p] = n
	h.blow(n, h.w.weather())
	return store
}

// learn finds out which script is for what, by using a store for it.
func (h *redisHost) learn() {
	t := h.w.t
	s, err := redisstore.New(h.server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	claim := picket.Claim{ID: strings.Repeat("A", 26), Key: "lesson", TTL: time.Second}
	h.teach = claimScript
	_, err = s.Acquire(t.Context(), claim)
	h.teach = renewScript
	s.Renew(t.Context(), []picket.Claim{claim}, func(_ int, e error) { err = errors.Join(err, e) })
	h.teach = claimScript
	err = errors.Join(err, s.Release(t.Context(), claim), s.Close(t.Context()))
	h.teach = ""
	if err != nil {
		t.Fatal(err)
	}
}

// What scripts are for.
const (
	claimScript = "claim"
	renewScript = "renew"
)

// watched marks the peer that takes the answer to a script from the server.
const watched = "watched"

// request is called before each command, also before those that scripts call.
func (h *redisHost) request(c *server.Peer, command string, args ...string) bool {
	if c.ClientName == watched || command != "EVAL" && command != "EVALSHA" {
		return false
	}
	hash := args[0]
	if command == "EVAL" {
		sum := sha1.Sum([]byte(args[0])) //nolint:gosec // as above
		hash = hex.EncodeToString(sum[:])
	}
	if h.teach != "" {
		h.ops[hash] = h.teach
		return false
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || h.ops[hash] == "" {
		return false
	}
	all := parts(h.ops[hash], args[2:2+n], args[2+n:])
	var out strings.Builder
	for _, some := range inTurn(all) {
		reply := h.run(c, command, args[0], some)
		if !strings.HasPrefix(reply, "*") { // an error of the whole
			c.WriteRaw(reply)
			return true
		}
		_, reply, _ = strings.Cut(reply, "\r\n")
		out.WriteString(reply)
	}
	c.WriteRaw(fmt.Sprintf("*%d\r\n%s", len(all), out.String()))
	return true
}

// part is one claim's part of a call.
type part struct {
	op, id, from string
	keys, args   []string
}

func (p part) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(p.keys[0], "lock:{"), "}")
	return name
}

// parts divides a call by claims.
func parts(script string, keys, args []string) (all []part) {
	for len(keys) > 0 && len(args) > 1 {
		p := part{op: "acquire", id: args[0]}
		k, n := 5, 4
		switch {
		case script == renewScript:
			p.op, k, n = "renew", 1, 2
		case args[1] == "-":
			p.op, n = "release", 2
		case args[1] == "--":
			p.op, n = "release", 3
		case args[1] == ">":
			p.op, p.from, p.id, n = "transfer", args[0], args[3], 7
		}
		p.keys, keys = keys[:k], keys[k:]
		p.args, args = args[:n], args[n:]
		all = append(all, p)
	}
	return all
}

// inTurn divides a call in which two claims are for one key, so that the ledger sees what is between them. Each claim is carried out by itself anyhow.
func inTurn(all []part) [][]part {
	seen := map[string]bool{}
	for _, p := range all {
		seen[p.name()] = true
	}
	if len(seen) == len(all) {
		return [][]part{all}
	}
	return slices.Collect(slices.Chunk(all, 1))
}

// run carries out a call, in view of the ledger, and returns the reply.
func (h *redisHost) run(c *server.Peer, command, script string, all []part) string {
	var names, keys, args []string
	for _, p := range all {
		names, keys, args = append(names, p.name()), append(keys, p.keys...), append(args, p.args...)
	}
	var out bytes.Buffer
	h.w.ledger.at(names, func() []effect {
		h.tick()
		peer := server.NewPeer(bufio.NewWriter(&out))
		peer.ClientName, peer.Resp3, peer.Ctx = watched, c.Resp3, c.Ctx
		h.server.Server().Dispatch(peer, slices.Concat([]string{command, script, strconv.Itoa(len(keys))}, keys, args))
		peer.Flush()
		return h.effects(all, out.String())
	})
	return out.String()
}

// effects reads what a script answers. The ledger's mutex is held.
func (h *redisHost) effects(asked []part, reply string) (all []effect) {
	for i, said := range said(reply) {
		p := asked[i]
		e := effect{op: p.op, id: p.id, from: p.from, key: p.name()}
		switch said[0] {
		case "granted":
			e.grant.Token, _ = strconv.ParseInt(said[1], 10, 64)
		case "done":
		case "handoff": // the store confirms by an acquire
			continue
		case "busy":
			e.err = picket.ErrBusy
			e.queued = h.queued(e.key, e.id)
			e.names, _, _ = strings.Cut(said[1], " ")
		case "gone":
			e.err = picket.ErrRefused
		case "lost":
			e.err = picket.ErrLost
		default:
			h.w.violation(refusal, "a script answers %s of %s with %q", p.op, h.w.name(e.id), said)
			continue
		}
		all = append(all, e)
	}
	return all
}

// said is the answers of a script, one for each claim: 1 is done, a text is the token of a grant, the rest has words.
func said(reply string) (all [][]string) {
	lines := strings.Split(reply, "\r\n")
	next := func() (string, int) {
		if len(lines) < 2 {
			return "", 0
		}
		line := lines[0]
		lines = lines[1:]
		n, _ := strconv.Atoi(line[1:])
		switch line[0] {
		case '$':
			line, lines = lines[0], lines[1:]
			return line, 0
		case '*':
			return "", n
		}
		return line, 0
	}
	for _, n := next(); n > 0; n-- {
		switch word, fields := next(); {
		case fields > 0:
			var words []string
			for range fields {
				word, _ := next()
				words = append(words, word)
			}
			all = append(all, words)
		case word == ":1":
			all = append(all, []string{"done"})
		default:
			all = append(all, []string{"granted", word})
		}
	}
	return all
}

// tick sets the server's clock.
func (h *redisHost) tick() {
	if h.back > 0 {
		h.server.SetTime(h.now())
	}
}

// step sets the server's clock back, as an administrator does. What Redis keeps until a time it then keeps for longer; miniredis does not, so the keys are told.
func (h *redisHost) step(d time.Duration) {
	g := h.w.ledger
	g.mu.Lock()
	defer g.mu.Unlock()
	g.log("the server's clock steps back by %s", d)
	h.tick()
	left := map[string]time.Duration{}
	for _, key := range h.server.Keys() {
		left[key] = h.server.TTL(key)
	}
	h.back += d
	h.tick()
	for key, ttl := range left {
		if ttl > 0 {
			h.server.SetTTL(key, ttl+d)
		}
	}
	for _, q := range g.queues {
		for _, w := range q.line {
			w.shaken = true
		}
	}
}

func (h *redisHost) queued(key, id string) bool {
	line, err := h.server.SortedSet("lock:{" + key + "}:queue")
	_, ok := line[id]
	return err == nil && ok
}

func (h *redisHost) status(key string) picket.Status {
	h.tick()
	st := picket.Status{Key: key, State: picket.StatusFree}
	text, err := h.server.Get("lock:{" + key + "}")
	if err != nil {
		return st
	}
	var since, ttl, longest, delay int64
	var state string
	if _, err := fmt.Sscanf(text, "%s token=%d since=%d ttl=%d max=%d delay=%d state=%s", &st.Holder.ID, &st.Token, &since, &ttl, &longest, &delay, &state); err != nil {
		h.w.t.Errorf("the record %q: %v", text, err)
	}
	st.TTL = time.Duration(ttl) * time.Millisecond
	st.State, st.Remaining = picket.StatusCooling, h.server.TTL("lock:{"+key+"}")
	if lease := st.Remaining - time.Duration(delay)*time.Millisecond; lease > 0 && (state == "held" || state == "handoff") {
		st.State, st.Remaining = picket.StatusHeld, lease
	}
	return st
}

func (h *redisHost) deaf(key string) map[string]bool {
	deaf := map[string]bool{}
	q := h.w.ledger.queues[key]
	if q == nil {
		return deaf
	}
	for _, w := range q.line {
		_, rest, ok := strings.Cut(h.server.HGet("lock:{"+key+"}:waiters", w.id), " proc=")
		process, _, _ := strings.Cut(rest, " ")
		channel := "lock:{" + key + "}:" + process
		if ok && process != "-" && h.server.PubSubNumSub(channel)[channel] == 0 {
			deaf[w.id] = true
		}
	}
	return deaf
}

// change lets the network below the stores be as the weather is, and now and then the server's clock step back.
func (h *redisHost) change(now weather) {
	if h.steps && now > calm && h.w.d.one(4) {
		h.step(h.w.d.between(time.Millisecond, 2*time.Hour))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for p, n := range h.networks {
		if !p.dead.Load() {
			h.blow(n, now)
		}
	}
	if now == calm {
		h.settle()
	}
}

// blow makes the network as the weather is.
func (h *redisHost) blow(n *network, now weather) {
	n.proxy.Heal()
	if !h.links || now == calm {
		return
	}
	if now == dark {
		n.proxy.BlackHole()
		return
	}
	n.faults++
	d := newDice(h.w.seed, int(1000+n.faults)) //nolint:gosec // small
	if d.one(4) {
		n.proxy.CutAll()
	}
	odds := lossy[now]
	for _, f := range []redistest.Fault{redistest.Drop(redistest.Requests), redistest.Drop(redistest.Replies)} {
		n.proxy.Sometimes(0.5/float64(odds.lost), f)
	}
	for _, way := range []redistest.Direction{redistest.Requests, redistest.Replies} {
		n.proxy.Sometimes(0.5/float64(odds.cut), redistest.Cut(way))
		n.proxy.Sometimes(0.5/float64(odds.slow), redistest.Delay(way, 20*time.Millisecond, latest))
	}
	n.proxy.Sometimes(0.08, redistest.Duplicate(), "evalsha", "eval")
}

// settle leaves no client with connections that have gone silent.
func (h *redisHost) settle() {
	if !h.links {
		return
	}
	for p, n := range h.networks {
		if !p.dead.Load() {
			n.proxy.CutAll()
		}
	}
}

// warm takes each client's pool through its broken connections.
func (h *redisHost) warm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all sync.WaitGroup
	for p, n := range h.networks {
		if p.dead.Load() {
			continue
		}
		for range 3 * n.client.Options().PoolSize {
			all.Go(func() { _ = n.client.Ping(h.w.t.Context()).Err() })
		}
	}
	all.Wait()
}

func (h *redisHost) kill(p *process, hangUp bool) {
	h.mu.Lock()
	n := h.networks[p]
	h.mu.Unlock()
	n.proxy.Heal()
	n.proxy.BlackHole()
	if hangUp {
		n.proxy.CutAll()
	}
}

func (h *redisHost) close() {
	ctx, cancel := context.WithTimeout(h.w.t.Context(), 10*time.Second)
	defer cancel()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range h.networks {
		if err := n.store.Close(ctx); err != nil && !errors.Is(err, picket.ErrClosed) {
			h.w.violation(stuck, "a store does not close: %v", err)
		}
	}
}
