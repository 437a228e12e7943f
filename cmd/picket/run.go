package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/picket-go/picket"
)

func (p *program) newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] KEY [--] COMMAND [ARG...]",
		Short: "Run a command while holding a lock",
		Example: `  picket run nightly -- ./backup.sh --full          wait for the lock, run, release
  picket run -n nightly -- ./backup.sh              give up at once if it is held (exit code 75)
  picket run -w 90 nightly -- ./backup.sh           wait for 90 seconds at most
  picket run nightly -c 'dump | gzip > db.gz'       a line for the shell
  picket run --max-hold 1h nightly -- ./backup.sh   end it after an hour (exit code 76)
  0 2 * * * picket run -nq --min-hold 5m nightly -- ./backup.sh   in a crontab`,
		Long:                  runLong,
		DisableFlagsInUseLine: true,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return p.completeKey(cmd, args, begun)
		},
	}
	s := newSettings(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.complete(cmd, args); err != nil {
			return err
		}
		return p.run(cmd.Context(), s)
	}
	return cmd
}

const runLong = `The command gets picket's stdin, stdout and stderr, the variables of picket help environment, and a process
group of its own. On a terminal that group is in the foreground. The exit code is the command's: see picket help
exit-codes.

Signals that picket gets go to the whole group. While it waits for the lock, TERM, INT, HUP and QUIT end the
waiting and others are ignored. Ctrl-Z stops the command and picket; nothing renews the lock until fg, and if it
was lost meanwhile the command is ended with exit code 76.

When the lock is lost, or --max-hold is over, the group gets SIGTERM --grace before the lock can end, and SIGKILL
early enough to be gone by then. The lock is released when no process of the group is left, which may be after the
command itself has exited. A process that leaves the group (setsid, daemons) is not followed: nobody ends it.
With a store of files it inherits the lock's descriptor and may so keep the lock until it exits; --close-lock
prevents that.

If picket itself is killed (SIGKILL), Linux sends SIGTERM to the command, but not to its children. A store of files
keeps the lock until the last of them is gone; stores with time limits (Redis) give it on after --ttl, whether they
are gone or not.

On Windows a signal or a lost lock ends the command only, not its children, and nothing inherits the lock.`

func (p *program) run(ctx context.Context, s *settings) error {
	sigs := listen()
	r, err := p.acquire(ctx, s, sigs)
	if err != nil {
		return err
	}
	st, le := r.store, r.lease
	p.notice(s, st)
	j := &job{
		path: r.path, argv: s.argv, streams: p.streams, lease: le, horizon: r.horizon, grace: s.grace.value, signals: sigs,
		tell: func(string, ...any) {},
	}
	if s.verbose {
		t := newTalk(p.err)
		defer close(t)
		j.tell = t.say
	}
	deadline := ""
	if s.maxHold.value > 0 {
		deadline = when(time.Now().Add(s.maxHold.value))
	}
	j.env = s.environ(os.Environ(), st, le, deadline)
	if st.inherit != nil && !s.closeLock {
		j.inherit = func() (*os.File, error) { return st.inherit(s.key) }
	}
	j.tell("got %q with token %d", s.key, le.Token())
	out, err := j.run()
	return p.finish(context.WithoutCancel(ctx), s, st, le, out, err)
}

// notice says once that a store nobody chose is local: a lock that other machines do not see surprises.
func (p *program) notice(s *settings, st *store) {
	if st.chosen || st.told || s.quiet {
		return
	}
	st.told = true
	say(p.err, "locks are files in %s and hold on this machine only; choose another store with --store or PICKET_STORE, or silence this with -q", printable(st.name))
}

// finish releases the lock behind the job and returns what to exit with.
func (p *program) finish(ctx context.Context, s *settings, st *store, le *picket.Lease, out outcome, failed error) error {
	freed := le.Release(ctx)
	lost := out.lost
	if lost == nil && errors.Is(freed, picket.ErrLost) {
		lost = freed
	}
	switch {
	case lost != nil && failed == nil:
		return exitf(exitLost, "%s; %s", unprefixed(lost), out.ended)
	case failed != nil:
		return failed
	case freed != nil && lost == nil:
		text := unprefixed(freed) // names the key, and says when it is free
		if !errors.Is(freed, picket.ErrUncertain) {
			text = fmt.Sprintf("releasing %q: %s", s.key, st.explain(freed))
		}
		say(p.err, "store %s: %s", printable(st.name), text)
	case s.verbose:
		say(p.err, "released %q; %s", s.key, out.ended)
	}
	return &exitError{code: out.code, end: out.end}
}

// findCommand looks a command up as a shell does, before the lock is asked for.
func findCommand(name string) (string, error) {
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) && runtime.GOOS != "windows" { // the user's PATH says so
		err = nil
	}
	if err != nil {
		return "", startFailure(name, err)
	}
	return path, nil
}

func startFailure(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitf(exitNotFound, "%s: command not found", printable(name))
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	return exitf(exitNotExecutable, "%s: cannot be executed: %s", printable(name), err)
}
