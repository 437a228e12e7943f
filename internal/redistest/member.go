package redistest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// view is the cluster in the eyes of one node: its CLUSTER NODES.
type view struct {
	by        *Server
	members   map[string]member // by id
	importing []int             // slots that it takes over: it does not hear of a new owner meanwhile, so it must not be asked
}

type member struct {
	flags  []string // such as "myself", "master", "fail?"
	master string   // whose replica it is
	linked bool
	ranges []slotRange // of a master
}

type slotRange struct{ first, last int }

// read takes lines such as "id 127.0.0.1:7001@7101 myself,slave masterid 0 1426238317239 4 connected". A master has "-" for the master, and its slots at the
// end: "0-5460 5462", and those that move: "[93-<-id]" in, "[94->-id]" out.
func (v *view) read(text string) error {
	v.members = map[string]member{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return fmt.Errorf("CLUSTER NODES has a line %q", line)
		}
		m := member{flags: strings.Split(fields[2], ","), linked: fields[7] == "connected"}
		if fields[3] != "-" {
			m.master = fields[3]
		}
		for _, field := range fields[8:] {
			if moving, ok := strings.CutPrefix(field, "["); ok {
				if slot, _, in := strings.Cut(moving, "-<-"); in {
					n, err := strconv.Atoi(slot)
					if err != nil {
						return err
					}
					v.importing = append(v.importing, n)
				}
				continue
			}
			r, err := parseRange(field)
			if err != nil {
				return err
			}
			m.ranges = append(m.ranges, r)
		}
		v.members[fields[0]] = m
	}
	return nil
}

func parseRange(text string) (r slotRange, err error) {
	first, last, many := strings.Cut(text, "-")
	if !many {
		last = first
	}
	if r.first, err = strconv.Atoi(first); err == nil {
		r.last, err = strconv.Atoi(last)
	}
	return r, err
}

func (m member) has(flag string) bool { return slices.Contains(m.flags, flag) }

// masters are those that have slots.
func (v *view) masters() []string {
	var ids []string
	for id, member := range v.members {
		for _, r := range member.ranges {
			if r.first < r.last || !slices.Contains(v.importing, r.first) {
				ids = append(ids, id)
				break
			}
		}
	}
	slices.Sort(ids)
	return ids
}

// agrees compares who is a master, whose the replicas are, and who has slots; not who is alive.
func (v *view) agrees(other *view) bool {
	return slices.Equal(v.masters(), other.masters()) && maps.EqualFunc(v.members, other.members, func(a, b member) bool {
		return a.master == b.master && a.has("master") == b.has("master")
	})
}

func (v *view) owner(slot int) (id string) {
	for id, member := range v.members {
		if slices.ContainsFunc(member.ranges, func(r slotRange) bool { return r.first <= slot && slot <= r.last }) {
			return id
		}
	}
	return ""
}
