package wire

import (
	"io"
	"net"
	"reflect"
	"testing"
)

func TestCommandsAreFoundHoweverTheyAreCut(t *testing.T) {
	t.Parallel()
	const text = "*1\r\n$5\r\nHELLO\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n"
	want := [][]string{{"SET", "k", "a\r\nb"}, {"GET", ""}}
	for size := 1; size <= len(text); size++ {
		client, server := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		tap := NewTap(true)
		conn := &tapped{Conn: client, tap: tap}
		for first := 0; first < len(text); first += size {
			if _, err := io.WriteString(conn, text[first:min(len(text), first+size)]); err != nil {
				t.Fatal(err)
			}
		}
		if got := tap.Take(); !reflect.DeepEqual(got, want) || tap.Count() != 2 || len(conn.rest) > 0 {
			t.Errorf("in pieces of %d: %q, %d counted, %q left; want %q", size, got, tap.Count(), conn.rest, want)
		}
		_ = client.Close()
	}
}
