package redisstore_test

import (
	"bufio"
	"bytes"
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/picket-go/picket/internal/redistest"
)

// executed is one command of the server's own journal (MONITOR), with those of scripts.
type executed struct {
	at    time.Duration // the server's clock
	lua   bool          // by the script that stands before it
	node  string        // on a Cluster: the id of the server
	words []string
}

// monitor takes down what the server executes, in that order, from now until the returned function is called, or the server is killed.
func monitor(t testing.TB, server *redistest.Server) func() []executed {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte("MONITOR\r\n")); err != nil {
		t.Fatal(err)
	}
	from := bufio.NewReaderSize(conn, 1<<20)
	if ok, err := from.ReadString('\n'); ok != "+OK\r\n" {
		t.Fatalf("MONITOR: %q, %v", ok, err)
	}
	const last = "the journal ends here"
	text := make(chan []byte, 1)
	go func() {
		var all bytes.Buffer
		for {
			line, err := from.ReadBytes('\n')
			if err != nil || bytes.Contains(line, []byte(`"echo" "`+last)) {
				text <- all.Bytes()
				return
			}
			all.Write(line)
		}
	}()
	return func() (journal []executed) {
		t.Helper()
		var all []byte
		select {
		case all = <-text:
		default:
			if err := server.Client(t).Echo(t.Context(), last).Err(); err != nil {
				t.Fatal(err)
			}
			all = <-text
		}
		for line := range bytes.Lines(all) {
			journal = append(journal, parseExecuted(t, string(line)))
		}
		return journal
	}
}

// merged makes one journal of those of several servers, whose clock is the same. Each call stays together with what its script executes.
func merged(journals ...[]executed) []executed {
	var calls [][]executed
	for _, journal := range journals {
		for i, e := range journal {
			if n := len(calls) - 1; e.lua && i > 0 {
				calls[n] = append(calls[n], e)
			} else {
				calls = append(calls, []executed{e})
			}
		}
	}
	slices.SortStableFunc(calls, func(a, b []executed) int { return cmp.Compare(a[0].at, b[0].at) })
	return slices.Concat(calls...)
}

// parseExecuted reads a line such as +1339518083.107412 [0 127.0.0.1:60866] "keys" "*".
func parseExecuted(t testing.TB, line string) executed {
	t.Helper()
	when, rest, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "+"), " [")
	from, rest, ok := strings.Cut(rest, "] ")
	secs, micros, _ := strings.Cut(when, ".")
	us, err := strconv.ParseInt(secs+micros, 10, 64)
	e := executed{at: time.Duration(us) * time.Microsecond, lua: strings.HasSuffix(from, "lua")}
	for ok && err == nil && rest != "" {
		var quoted, word string
		if quoted, err = strconv.QuotedPrefix(rest); err == nil {
			word, err = strconv.Unquote(quoted)
			rest = strings.TrimPrefix(rest[len(quoted):], " ")
			e.words = append(e.words, word)
		}
	}
	if !ok || err != nil || len(e.words) == 0 {
		t.Fatalf("the server's journal has the line %q: %v", line, err)
	}
	e.words[0] = strings.ToLower(e.words[0])
	return e
}

// TestJournalsOfTwoServersBecomeOne: by the time, but a script's commands stay with it.
func TestJournalsOfTwoServersBecomeOne(t *testing.T) {
	t.Parallel()
	read := func(lines ...string) (journal []executed) {
		for _, line := range lines {
			journal = append(journal, parseExecuted(t, line))
		}
		return journal
	}
	var got []string
	for _, e := range merged(
		read(`1.000001 [0 lua] "a0"`, `1.000002 [0 127.0.0.1:1] "A"`, `1.000004 [0 lua] "a1"`, `1.000006 [0 lua] "a2"`, `1.000009 [0 127.0.0.1:1] "B"`),
		nil,
		read(`1.000005 [0 127.0.0.1:1] "C"`, `1.000007 [0 lua] "c1"`, `1.000008 [0 127.0.0.1:1] "D"`),
	) {
		got = append(got, e.words[0])
	}
	if want := "a0 a a1 a2 c c1 d b"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
