package redisstore_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/picket-go/picket"
	"github.com/picket-go/picket/internal/redistest"
	"github.com/picket-go/picket/redisstore"
)

// oddNames are names that a hash tag, a percent sign or a glob could make something else of. Some differ in nothing but that.
func oddNames() []string {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	long := strings.Repeat("x", 511)
	return []string{
		"a", "{a}", "a{b}c", "a{b}d", "a{b", "ab}c", "{}", "}{", "{", "}", "{}a", "{}b", "{{a}}", "a}:fence", "a}{a", "a:queue",
		"%", "%%", "%25", "%7B", "%7b", "%7D", "%257B", "a%7Bb%7Dc", "%7B%7D",
		long + "y", long + "z", long[:510] + "{}", strings.Repeat("{", 512), string(all), string(all[128:]), "\x00", "\x00\x00", "\xff", "\n", " ", "\r\n",
		"日本語", "ü", "u\u0308", "🔒", "*", "?", "[a]", `\`, `"`, "lock:{a}",
	}
}

// recordOf is the record's key as the package's documentation has it.
func recordOf(name string) string {
	var key strings.Builder
	key.WriteString("lock:{")
	for _, b := range []byte(name) {
		switch b {
		case '%':
			key.WriteString("%25")
		case '{':
			key.WriteString("%7B")
		case '}':
			key.WriteString("%7D")
		default:
			key.WriteByte(b)
		}
	}
	return key.String() + "}"
}

// keysOf are the keys of a lock, and the shard channel of one who waits for it.
func keysOf(name, process string) (all []string) {
	for _, suffix := range []string{"", ":fence", ":queue", ":waiters", ":gone", ":s" + process} {
		all = append(all, recordOf(name)+suffix)
	}
	return all
}

// holdAll has a claim of its own hold each of the names at the same time.
func holdAll(t *testing.T, s picket.Store, names []string) (all []picket.Claim) {
	t.Helper()
	for _, name := range names {
		c := claim(name)
		if _, err := s.Acquire(t.Context(), c); err != nil {
			t.Errorf("Acquire(%q) = %v", name, err)
		}
		all = append(all, c)
	}
	return all
}

// renewAll renews in one call and returns each claim's outcome.
func renewAll(t *testing.T, s picket.Store, cs []picket.Claim) []error {
	t.Helper()
	errs := slices.Repeat([]error{errors.New("no report")}, len(cs))
	s.Renew(t.Context(), cs, func(i int, err error) { errs[i] = err })
	return errs
}

// TestNamesOnACluster shares one among its parts, which leave nothing behind.
func TestNamesOnACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	for name, part := range map[string]func(*testing.T, *redistest.Cluster){
		"odd ones work and never meet":           oddNamesWork,
		"the store knows the slot of any":        slotsOfNames,
		"a renewal of many is slot by slot":      manySlotsAreRenewed,
		"a listing of all masters has each once": allMastersAreListed,
	} {
		t.Run(name, func(t *testing.T) {
			part(t, cluster)
			for _, server := range cluster.Masters() {
				if err := server.Client(t).FlushAll(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// oddNamesWork (issue 5): all are held at once, each by its own claim, and every operation of each works and stays in one slot.
func oddNamesWork(t *testing.T, cluster *redistest.Cluster) {
	names := oddNames()
	s, other := store(t, cluster.Client(t)), store(t, cluster.Client(t))
	l := locker(t, s)
	for _, name := range names {
		if err := acquired(t, l, name).Release(t.Context()); err != nil {
			t.Errorf("Release(%q) by a Locker = %v", name, err)
		}
	}
	held := holdAll(t, s, names)
	for i, err := range renewAll(t, s, held) {
		if err != nil {
			t.Errorf("Renew(%q) = %v", names[i], err)
		}
	}
	if got, want := listed(t, other, ""), slices.Sorted(slices.Values(names)); !slices.Equal(got, want) {
		t.Errorf("List yields %q, want %q", got, want)
	}
	var want []string
	for _, name := range names {
		want = append(want, recordOf(name), recordOf(name)+":fence")
	}
	if got := keysOfAll(t, cluster); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("the nodes have the keys %q, want %q", got, want)
	}
	for _, c := range held {
		wholeLife(t, s, other, c)
	}
	neverAnswered(t, cluster, "CROSSSLOT")
}

// neverAnswered wants that no node has answered such errors, to whomever.
func neverAnswered(t *testing.T, cluster *redistest.Cluster, codes ...string) {
	t.Helper()
	for _, server := range cluster.Servers() {
		stats := server.Info("errorstats")
		for _, code := range codes {
			if count, ok := stats["errorstat_"+code]; ok {
				t.Errorf("%s has answered %s: %s", server.Addr(), code, count)
			}
		}
	}
}

// wholeLife takes a held lock through all that can be done with it.
func wholeLife(t *testing.T, s, other *redisstore.Store, c picket.Claim) {
	t.Helper()
	ctx := t.Context()
	ok := func(op string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s(%q) = %v", op, c.Key, err)
		}
	}
	st, err := other.Inspect(ctx, c.Key)
	ok("Inspect", err)
	if st.Key != c.Key || st.State != picket.StatusHeld || st.Holder.ID != c.ID {
		t.Errorf("Inspect(%q) = %+v, want the holder %s", c.Key, st, c.ID)
	}
	again, err := s.Acquire(ctx, c)
	ok("Acquire again", err)
	if again.Token != st.Token {
		t.Errorf("Acquire(%q) again = %d, want the token %d", c.Key, again.Token, st.Token)
	}
	above := st.Token + time.Hour.Microseconds()
	higher, err := s.Reissue(ctx, c, above)
	ok("Reissue", err)
	if higher.Token <= above {
		t.Errorf("Reissue(%q) = %d, want more than %d", c.Key, higher.Token, above)
	}
	w, wake := waits(t, other, c.Key)
	next := claim(c.Key)
	if g, err := s.Transfer(ctx, c, next); err != nil || g.Token <= higher.Token {
		t.Errorf("Transfer(%q) = %d, %v, want a token above %d", c.Key, g.Token, err, higher.Token)
	}
	ok("Release", s.Release(ctx, next))
	select {
	case <-wake:
	case <-time.After(slow(2 * time.Second)):
		t.Errorf("the waiter for %q is not woken", c.Key)
	}
	g, err := other.Acquire(ctx, w)
	ok("Acquire of who was woken", err)
	ok("Break", s.Break(ctx, c.Key, g.Token))
	if lost, is := errors.AsType[*picket.LostError](renewAll(t, other, []picket.Claim{w})[0]); !is || lost.Reason != picket.ReasonBroken {
		t.Errorf("Renew(%q) of who was broken = %v", c.Key, lost)
	}
	ok("Release of who was broken", other.Release(ctx, w))
}

// listed are the keys that List yields, sorted; it must not yield errors.
func listed(t *testing.T, s *redisstore.Store, prefix string) (keys []string) {
	t.Helper()
	for st, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Errorf("List(%q) yields %v", prefix, err)
			continue
		}
		keys = append(keys, st.Key)
	}
	slices.Sort(keys)
	return keys
}

// keysOfAll are the keys that all nodes have together, sorted.
func keysOfAll(t *testing.T, cluster *redistest.Cluster) (keys []string) {
	t.Helper()
	for _, server := range cluster.Masters() {
		keys = append(keys, server.Client(t).Keys(t.Context(), "*").Val()...)
	}
	slices.Sort(keys)
	return keys
}

// slotsOfNames: the Store's own count decides which MOVED is about which wake-up channel.
func slotsOfNames(t *testing.T, cluster *redistest.Cluster) {
	c := cluster.Servers()[0].Client(t)
	text := rapid.OneOf(
		rapid.StringOfN(rapid.SampledFrom([]rune("a{}%:25B7D*\x00ü")), 1, 40, -1),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 512), func(b []byte) string { return string(b) }),
		rapid.SampledFrom(oddNames()),
	)
	rapid.Check(t, func(rt *rapid.T) {
		name := text.Draw(rt, "name")
		keys := keysOf(name, "PROCESS")
		slots := map[string]*redis.IntCmd{}
		_, err := c.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			for _, key := range append(keys, name, "{"+name) { // other keys than ours end up in MOVED as well
				slots[key] = p.ClusterKeySlot(t.Context(), key)
			}
			return nil
		})
		if err != nil {
			rt.Fatal(err)
		}
		for key, slot := range slots {
			if got, want := redisstore.SlotText(key), strconv.FormatInt(slot.Val(), 10); got != want {
				rt.Fatalf("the slot of %q is %s, want %s", key, got, want)
			}
		}
		for _, key := range keys {
			if redisstore.SlotText(key) != redisstore.SlotText(keys[0]) {
				rt.Fatalf("%q is not in the slot of %q", key, keys[0])
			}
		}
	})
}

// manySlotsAreRenewed (GL-60): of 200 claims one is lost, one is on a foreign key, one on a record that somebody has overwritten. The others do not feel it.
func manySlotsAreRenewed(t *testing.T, cluster *redistest.Cluster) {
	c := cluster.Client(t)
	s := store(t, c)
	var names []string
	for i := range 200 {
		names = append(names, fmt.Sprint("name ", i))
	}
	held := holdAll(t, s, names)
	ctx := t.Context()
	for _, do := range []error{
		c.Del(ctx, recordOf(names[20])).Err(),
		c.Del(ctx, recordOf(names[70])).Err(), c.HSet(ctx, recordOf(names[70]), "a", "b").Err(),
		c.Set(ctx, recordOf(names[130]), "not ours", 0).Err(),
	} {
		if do != nil {
			t.Fatal(do)
		}
	}
	for i := range names {
		if err := c.PExpire(ctx, recordOf(names[i]), held[i].TTL/2).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for i, err := range renewAll(t, s, held) {
		var want error
		switch i {
		case 20, 130:
			want = picket.ErrLost
		case 70:
			want = picket.ErrRefused
		}
		if !errors.Is(err, want) {
			t.Errorf("Renew(%q) = %v, want %v", names[i], err, want)
		}
		if left := c.PTTL(ctx, recordOf(names[i])).Val(); want == nil && left <= held[i].TTL*3/4 {
			t.Errorf("%q has %v left", names[i], left)
		}
	}
}

// allMastersAreListed: each lock is yielded once, whatever glob characters the prefix has, and wherever its slot is on the way to.
func allMastersAreListed(t *testing.T, cluster *redistest.Cluster) {
	s := store(t, cluster.Client(t))
	var names []string
	prefixes := []string{"", "a*", "a?", "a[", "a[b]", "a[^b]", `a\`, `a\*`, "a{", "a}", "a%", "a%7B", "a^", "ab", "none", "\xff"}
	for i, prefix := range prefixes {
		if prefix != "none" {
			for n := range 8 {
				names = append(names, fmt.Sprint(prefix, i, n))
			}
		}
	}
	holdAll(t, s, names)
	list := func(when string) {
		t.Helper()
		for _, prefix := range prefixes {
			want := slices.DeleteFunc(slices.Sorted(slices.Values(names)), func(name string) bool { return !strings.HasPrefix(name, prefix) })
			if got := listed(t, s, prefix); !slices.Equal(got, want) {
				t.Errorf("%s: List(%q) yields %q, want %q", when, prefix, got, want)
			}
		}
	}
	list("no slot moves")
	crowded := neighbours(5)
	names = append(names, crowded...)
	holdAll(t, s, crowded)
	record := recordOf(crowded[0])
	move := cluster.Move(record, elsewhere(cluster, record))
	for gone := 0; len(move.Keys()) > 0; gone++ {
		if gone%3 == 0 {
			list(fmt.Sprintf("%d keys of a slot have moved", gone))
		}
		move.Step(1)
	}
	list("all keys of a slot have moved")
	move.Finish()
	list("a slot has moved")
}

// TestANodeOfAClusterDoesNotListItsKeysAsIfTheyWereAll: also one that has a single lock, or none.
func TestANodeOfAClusterDoesNotListItsKeysAsIfTheyWereAll(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.ClusterConfig{Replicas: -1})
	s := store(t, cluster.Client(t))
	if _, err := s.Acquire(t.Context(), claim("k")); err != nil {
		t.Fatal(err)
	}
	for _, node := range cluster.Servers() {
		yields := 0
		for st, err := range store(t, client(t, node)).List(t.Context(), "") {
			yields++
			if !errors.Is(err, picket.ErrUnsupported) || !strings.Contains(err.Error(), "redisstore: list: the server belongs to a Cluster: use redis.NewClusterClient") {
				t.Errorf("%s lists %+v, %v", node.Addr(), st, err)
			}
		}
		if yields != 1 {
			t.Errorf("%s yields %d times", node.Addr(), yields)
		}
	}
}
