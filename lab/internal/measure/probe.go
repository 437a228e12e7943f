package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/picket-go/picket/lab/internal/stats"
)

// ProbeArgument makes the program Probe instead of a benchmark: a bystander must be a process of its own, or it would measure how long the callers keep Go's scheduler.
const ProbeArgument = "__probe"

// getEvery leaves the server alone between two GETs.
const getEvery = time.Millisecond

// probed is what a probe prints.
type probed struct{ P50, P99 time.Duration }

// runProbe runs this program once more, as a bystander.
func runProbe(ctx context.Context, addr string, d time.Duration) (probed, error) {
	self, err := os.Executable()
	if err != nil {
		return probed{}, err
	}
	out, err := exec.CommandContext(ctx, self, ProbeArgument, addr, d.String()).Output() //nolint:gosec // ourselves
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return probed{}, fmt.Errorf("the process that sends GETs: %w", err)
	}
	var p probed
	return p, json.Unmarshal(out, &p)
}

// Probe sends GETs to an address for a duration, the two arguments, and prints how long they took.
func Probe(ctx context.Context, out io.Writer, args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s wants an address and a duration", ProbeArgument)
	}
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", args[0])
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is left to write
	took, err := gets(ctx, conn, d)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(probed{stats.Percentile(took, 50), stats.Percentile(took, 99)})
}

func gets(ctx context.Context, conn net.Conn, d time.Duration) (took []time.Duration, err error) {
	const get = "*2\r\n$3\r\nGET\r\n$9\r\nbystander\r\n"
	in := bufio.NewReader(conn)
	end := time.Now().Add(d)
	if err := conn.SetDeadline(end.Add(10 * time.Second)); err != nil {
		return nil, err
	}
	for time.Now().Before(end) {
		begin := time.Now()
		if _, err := io.WriteString(conn, get); err != nil {
			return nil, err
		}
		if line, err := in.ReadString('\n'); err != nil {
			return nil, err
		} else if line != "$-1\r\n" {
			return nil, fmt.Errorf("the server answered %q", line)
		}
		took = append(took, time.Since(begin))
		if err := pause(ctx, getEvery); err != nil {
			return nil, err
		}
	}
	return took, nil
}
