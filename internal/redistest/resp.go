package redistest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// frame is one value of the Redis protocol, as it came (https://redis.io/docs/latest/develop/reference/protocol-spec/).
type frame struct {
	text []byte
}

var errFrame = errors.New("not the Redis protocol")

const (
	deepest = 32        // nested arrays
	longest = 512 << 20 // proto-max-bulk-len
)

func readFrame(from *bufio.Reader) (frame, error) {
	var text bytes.Buffer
	err := copyValue(&text, from, deepest)
	return frame{text.Bytes()}, err
}

// push reports whether the server sent the frame unasked, in RESP 3.
func (f frame) push() bool { return f.text[0] == '>' }

// command is the name of a request, in small letters.
func (f frame) command() string {
	words := bytes.SplitN(f.text, []byte("\r\n"), 4)
	if f.text[0] == '*' && len(words) == 4 { // *1 $4 PING
		return strings.ToLower(string(words[2]))
	}
	inline, _, _ := strings.Cut(strings.TrimSpace(string(f.text)), " ")
	return strings.ToLower(inline)
}

// copyValue copies one value, with all that it contains.
func copyValue(to *bytes.Buffer, from *bufio.Reader, depth int) error {
	line, err := from.ReadBytes('\n')
	if err != nil {
		return err
	}
	to.Write(line)
	if depth == 0 || len(line) < 3 {
		return fmt.Errorf("%w: %q", errFrame, line)
	}
	values := 0
	switch line[0] {
	case '$', '=', '!':
		return copyBulk(to, from, line)
	case '*', '~', '>':
		values, err = count(line)
	case '%':
		values, err = count(line)
		values *= 2
	case '|': // attributes, and then the value that they describe
		values, err = count(line)
		values = 2*values + 1
	}
	for ; err == nil && values > 0; values-- {
		err = copyValue(to, from, depth-1)
	}
	return err
}

func copyBulk(to *bytes.Buffer, from *bufio.Reader, line []byte) error {
	length, err := count(line)
	if err != nil || length < 0 {
		return err
	}
	_, err = io.CopyN(to, from, int64(length)+2)
	return err
}

// count reads the number of a line such as "$5"; -1 is a nil.
func count(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil || n < -1 || n > longest {
		return 0, fmt.Errorf("%w: %q", errFrame, line)
	}
	return n, nil
}
