package redisstore

import (
	"strconv"
	"strings"
)

// The suffixes of a lock's keys behind prefix{N}, in the order in which scripts take them.
var suffixes = [...]string{"", ":fence", ":queue", ":waiters", ":gone"}

// absent is the suffix of a key that never exists. On a Cluster a claim names it behind the others: a server that a slot is being moved from refuses a call that names a key which
// it has not got, whereas it would let the script die half-way that removes a key and writes it again.
const absent = ":absent"

var (
	escaper   = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")
	unescaper = strings.NewReplacer("%25", "%", "%7B", "{", "%7D", "}")
	globber   = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`)
)

// record is the Redis key of a name's record. Its first brace pair is the escaped name, so that all keys of a name hash to one slot and no name reaches into another's.
func (s *Store) record(name string) string { return string(s.appendRecord(nil, name)) }

// appendRecord appends the same.
func (s *Store) appendRecord(to []byte, name string) []byte {
	return append(append(append(append(to, s.set.prefix...), '{'), escaper.Replace(name)...), '}')
}

// keys appends the five keys of a name.
func (s *Store) keys(to []string, name string) []string {
	record := s.record(name)
	for _, suffix := range suffixes {
		to = append(to, record+suffix)
	}
	return to
}

// name is the name whose record has the Redis key, or false if it is no record's key.
func (s *Store) name(key string) (string, bool) {
	escaped, ok := strings.CutPrefix(key, s.set.prefix+"{")
	if !ok {
		return "", false
	}
	escaped, ok = strings.CutSuffix(escaped, "}")
	if !ok || strings.ContainsAny(escaped, "{}") {
		return "", false
	}
	return unescaper.Replace(escaped), true
}

// slotText is the slot of a Redis key in a Cluster, as MOVED has it: CRC-16/XMODEM of what stands in the first braces (Redis cluster specification, appendix A).
func slotText(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			key = tag
		}
	}
	crc := uint16(0)
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if carry := crc&0x8000 != 0; carry {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return strconv.Itoa(int(crc % 16384))
}
