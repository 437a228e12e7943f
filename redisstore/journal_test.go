package redisstore_test

import (
	"bufio"
	"bytes"
	"net"
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
	words []string
}

// monitor takes down what the server executes, in that order, from now until the returned function is called.
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
		if err := server.Client(t).Echo(t.Context(), last).Err(); err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(<-text) {
			journal = append(journal, parseExecuted(t, string(line)))
		}
		return journal
	}
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
