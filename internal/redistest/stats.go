package redistest

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// Info is one section of INFO, or all of them for "".
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	info, err := s.info(section)
	s.must(err)
	return info
}

func (s *Server) info(section string) (map[string]string, error) {
	var sections []string
	if section != "" {
		sections = append(sections, section)
	}
	text, err := s.admin.Info(s.context(), sections...).Result()
	if err != nil {
		return nil, err
	}
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	return info, nil
}

// CommandStats counts the calls of each command since the start of the server, in small letters: "evalsha", "config|set". It leaves out "info", which it calls
// itself. Commands in a script count too, and those that connect a client: hello, client|setinfo.
func (s *Server) CommandStats() map[string]int64 {
	s.t.Helper()
	calls := map[string]int64{}
	for key, value := range s.Info("commandstats") {
		name, isCommand := strings.CutPrefix(key, "cmdstat_")
		first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		n, err := strconv.ParseInt(first, 10, 64)
		if isCommand && err == nil && n > 0 {
			calls[name] = n
		}
	}
	maps.DeleteFunc(calls, func(name string, _ int64) bool { return name == "info" })
	return calls
}

// await polls until is returns nil, and ends the test when that takes longer than a process may need.
func (s *Server) await(what string, is func() error) {
	s.t.Helper()
	s.awaitFor(startLimit, what, is)
}

func (s *Server) awaitFor(limit time.Duration, what string, is func() error) {
	s.t.Helper()
	var err error
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if err = is(); err == nil {
			return
		}
	}
	s.t.Fatalf("Redis at %s: %s: %v", s.Addr(), what, err)
}

// awaitReplication waits until a replica has its master's data.
func (s *Server) awaitReplication() {
	s.t.Helper()
	s.await("replication does not begin", func() error {
		info, err := s.info("replication")
		if err == nil && info["master_link_status"] != "up" {
			err = fmt.Errorf("the link is %q", info["master_link_status"])
		}
		return err
	})
}
