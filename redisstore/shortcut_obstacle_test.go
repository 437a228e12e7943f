package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/picket-go/picket/internal/virtualredis"
)

// TestTheShortcutLeavesToTheRestWhatItIsNotFor: what stands in the way of a swap or a confirmation, each alone, as chance rarely finds it at the right moment.
func TestTheShortcutLeavesToTheRestWhatItIsNotFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))
		p := newPair(t, virtualredis.Start(t).Client(t), virtualredis.Start(t).Client(t))
		keys := &Store{set: settings{prefix: "lock:"}}
		for n, lines := range [][]string{
			{"redis ZADD gone 99999999999999 " + id("C")},
			{"redis ZADD gone 99999999999999 " + id("C"), "redis DEL waiters"},
			{"redis ZADD gone 99999999999999 " + id("C"), "redis DEL queue"},
			{"redis LPUSH gone x"},
			{"redis LPUSH gone x", "redis DEL waiters"},
			{"redis HSET waiters passed -" + id("B")},
			{"redis HSET waiters passed =" + id("B")},
			{"redis HSET waiters handed x"},
			{"redis HSET waiters handed " + id("C")},
			{"redis SET waiters hello PX 3600000"},
			{"redis SET queue hello PX 3600000"},
			{"acquire C queue"},
			{"redis SET fence hello PX 3600000"},
		} {
			for i := range 2 {
				for _, v := range []*traveller{&p.short, &p.whole} {
					for lock := range v.locks {
						v.locks[lock] = keys.keys(nil, fmt.Sprint(n, i, lock))
					}
					v.keys = v.locks[0]
				}
				lines := append([]string{"acquire A", "acquire B queue", "wait 1ms"}, lines...)
				if i == 0 {
					lines = append(lines, "wait 1ms", "transfer A to C")
				} else { // C has it handed, and B waits
					lines = append([]string{"acquire A", "acquire C queue", "acquire B queue", "release A", "wait 1ms"}, lines[3:]...)
					lines = append(lines, "wait 1ms", "acquire C")
				}
				for j, line := range lines {
					if got, want := p.follow(line); got != want {
						t.Errorf("after\n\t%s\n%s\nwith the shortcut %s\nwithout it        %s", strings.Join(lines[:j], "\n\t"), line, got, want)
					}
				}
			}
		}
	})
}
