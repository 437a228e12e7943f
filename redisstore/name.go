package redisstore

import "strings"

// The suffixes of a lock's keys behind prefix{N}, in the order in which scripts take them.
var suffixes = [...]string{"", ":fence", ":queue", ":waiters", ":gone"}

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

// channel is where the scripts publish what waiters of name in this process should hear.
func (s *Store) channel(name string) string { return s.record(name) + ":" + s.process }
