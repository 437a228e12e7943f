package redistest

import (
	"fmt"
	"slices"
	"time"
)

// migrateLimit is for MIGRATE, during which the source does nothing else. It ends before our own client loses patience.
const migrateLimit = 4 * time.Second

// Migration is a slot on its way from one master of a cluster to another.
type Migration struct {
	cluster        *Cluster
	slot           int
	source, target *Server
}

// Move begins to give the key's slot to another master; no key is moved yet. When one of the two dies meanwhile, the server that is promoted for it knows
// nothing of the migration, so the test begins it anew. Until then the target of a dead source says CLUSTERDOWN for all its slots, and the source sends clients
// to a dead target.
func (c *Cluster) Move(key string, to *Server) *Migration {
	c.t.Helper()
	m := &Migration{cluster: c, slot: c.slot(key), target: to}
	to.command("cluster", "setslot", m.slot, "stable") // While it takes the slot over it does not hear of a new owner.
	if m.source = c.Master(key); m.source == to {
		c.t.Fatalf("%s has slot %d already", to.Addr(), m.slot)
	}
	// In the other order the source would send clients to a target that sends them back.
	to.command("cluster", "setslot", m.slot, "importing", c.id(m.source))
	m.source.command("cluster", "setslot", m.slot, "migrating", c.id(to))
	return m
}

// Source is the master that has the slot until Finish.
func (m *Migration) Source() *Server { return m.source }

// Target is the master that has the slot from Finish on.
func (m *Migration) Target() *Server { return m.target }

// Keys are those of the slot that are still at the source.
func (m *Migration) Keys() []string {
	m.source.t.Helper()
	return m.some(1 << 30)
}

func (m *Migration) some(n int) []string {
	m.source.t.Helper()
	keys, err := m.source.admin.ClusterGetKeysInSlot(m.source.context(), m.slot, n).Result()
	m.source.must(err)
	return keys
}

// Step moves up to n keys in one command, and returns how many that were: 0 when the source has none.
func (m *Migration) Step(n int) int {
	m.source.t.Helper()
	keys := m.some(n)
	if len(keys) > 0 {
		m.MoveKeys(keys...)
	}
	return len(keys)
}

// MoveKeys moves just these in one command. One that is not at the source any more counts as moved; one that is at both, which a cluster does not let happen
// by itself, ends the test.
func (m *Migration) MoveKeys(keys ...string) {
	m.source.t.Helper()
	args := []any{"migrate", "127.0.0.1", m.target.port, "", 0, migrateLimit.Milliseconds()}
	if password := m.target.settings.password; password != "" {
		args = append(args, "auth", password)
	}
	args = append(args, "keys")
	for _, key := range keys {
		args = append(args, key)
	}
	// The message leaves the arguments out: the password is one.
	if err := m.source.admin.Do(m.source.context(), args...).Err(); err != nil {
		m.source.t.Fatalf("Redis at %s: MIGRATE of %q to %s: %v", m.source.Addr(), keys, m.target.Addr(), err)
	}
}

// Finish moves the rest and gives the slot to the target. It returns when all live nodes know it.
func (m *Migration) Finish() {
	c := m.cluster
	c.t.Helper()
	for m.Step(100) > 0 { // It ends: a source that migrates creates no keys.
	}
	// A source that is told first would send clients to a target that sends them back.
	order := []*Server{m.target, m.source}
	for _, master := range c.Masters() {
		if !slices.Contains(order, master) && slices.Contains(c.live(), master) {
			order = append(order, master)
		}
	}
	for _, master := range order {
		master.command("cluster", "setslot", m.slot, "node", c.id(m.target))
	}
	c.awaitMaster("the slot has not moved", m.slot, func(master *Server, _ []*view) error {
		if master != m.target {
			return fmt.Errorf("%s has it", master.Addr())
		}
		return nil
	})
}
