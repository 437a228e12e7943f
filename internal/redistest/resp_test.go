package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// Each is one value, whatever it contains.
var values = []string{
	"+OK\r\n", "-ERR no\r\n", ":7\r\n", ",1.5\r\n", "#t\r\n", "_\r\n", "(12345678901234567890\r\n",
	"$5\r\na\r\nbc\r\n", "$0\r\n\r\n", "$-1\r\n", "=5\r\ntxt:a\r\n", "!5\r\nERR a\r\n",
	"*0\r\n", "*-1\r\n", "*2\r\n$1\r\na\r\n*1\r\n:1\r\n", "~1\r\n:1\r\n", ">2\r\n+a\r\n+b\r\n", "%1\r\n+k\r\n$1\r\nv\r\n", "|1\r\n+k\r\n+v\r\n:1\r\n",
	"PING now\r\n",
}

func TestAFrameIsOneValue(t *testing.T) {
	t.Parallel()
	from := bufio.NewReader(strings.NewReader(strings.Join(values, "")))
	for _, want := range values {
		got, err := readFrame(from)
		if err != nil || string(got.text) != want || got.push() != (want[0] == '>') {
			t.Errorf("%q, %v; want %q", got.text, err, want)
		}
	}
	if _, err := readFrame(from); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
}

func TestTheCommandOfARequest(t *testing.T) {
	t.Parallel()
	for request, want := range map[string]string{
		"*1\r\n$4\r\nPING\r\n":               "ping",
		"*2\r\n$3\r\nGet\r\n$1\r\nk\r\n":     "get",
		"PING\r\n":                           "ping",
		"echo a b\r\n":                       "echo",
		"*0\r\n":                             "*0",
		"*2\r\n$4\r\nECHO\r\n$2\r\n\r\n\r\n": "echo",
	} {
		frame, err := readFrame(bufio.NewReader(strings.NewReader(request)))
		if got := frame.command(); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", request, got, err, want)
		}
	}
}

func TestWhatIsNoFrame(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n", "$x\r\n", "$-2\r\n", "$5\r\nab", "*2\r\n:1\r\n", "*99999999999\r\n", "$999999999\r\n", strings.Repeat("*1\r\n", 1000)} {
		if got, err := readFrame(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%.40q is %q", text, got.text)
		}
	}
}

func FuzzReadFrame(f *testing.F) {
	for _, value := range values {
		f.Add([]byte(value))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		frame, err := readFrame(bufio.NewReader(bytes.NewReader(text)))
		if !bytes.HasPrefix(text, frame.text) {
			t.Errorf("%q of %q", frame.text, text)
		}
		if err == nil {
			frame.command()
		}
	})
}
