package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/prelude.lua
	preludeLua string
	//go:embed scripts/queue.lua
	queueLua string
	//go:embed scripts/claim_simple.lua
	claimSimpleLua string
	//go:embed scripts/claim.lua
	claimLua string
	//go:embed scripts/renew_held.lua
	renewHeldLua string
	//go:embed scripts/renew.lua
	renewLua string
	//go:embed scripts/break.lua
	breakLua string
	//go:embed scripts/reissue.lua
	reissueLua string
	//go:embed scripts/inspect.lua
	inspectLua string
	//go:embed scripts/moving.lua
	movingLua string
	//go:embed scripts/split.lua
	splitLua string
)

// script is a Lua script and the hash by which Redis knows it. It has no shebang line: with one, Redis would refuse a release when memory is short.
type script struct {
	text, sha any     // strings: as arguments they would be an allocation each time
	moving    *script // the same for one lock whose slot is being moved; nil if it needs none
}

func newScript(parts ...string) *script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// movable is newScript with its moving form.
func movable(parts ...string) *script {
	sc := newScript(parts...)
	sc.moving = newScript(movingLua, strings.Join(parts, ""), "\nend\n\nreturn {whole(), unsaid}\n")
	return sc
}

// unanswered is what the two in demand have in front of the rest, when nothing was answered yet.
const unanswered = "local answers, began = {}, nil\n"

var (
	claimScript   = movable(claimSimpleLua, preludeLua, queueLua, claimLua)
	inspectScript = movable(unanswered, preludeLua, queueLua, inspectLua)
	renewScript   = newScript(renewHeldLua, preludeLua, renewLua)
	breakScript   = movable(unanswered, preludeLua, breakLua)
	reissueScript = movable(unanswered, preludeLua, reissueLua)
	splitScript   = newScript(unanswered, preludeLua, queueLua, splitLua)
)

// once is a command that go-redis sends at most once. By default it repeats what had no answer: an INCR whose reply was lost twice counts three.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it repeats a command.
func (once) NoRetry() bool { return true }

// sender sends commands, one by one or several together: a client, or one connection of it.
type sender interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Pipeline() redis.Pipeliner
}

// places is how many of a command's arguments stand in front of its keys: its name, the script, how many keys.
const places = 3

// command makes r ready to be sent: by hash, or whole.
func command(ctx context.Context, r request, whole bool) *redis.Cmd {
	r.args[0], r.args[1], r.args[2] = "evalsha", r.script.sha, r.keys
	if whole {
		r.args[0], r.args[1] = "eval", r.script.text
	}
	cmd := redis.NewCmd(ctx, r.args...)
	cmd.SetFirstKeyPos(places)
	return cmd
}

// eval runs r's script once. Only NOSCRIPT is followed by a second command, as it says that nothing was done.
func eval(ctx context.Context, via sender, r request) ([]any, error) {
	cmd := command(ctx, r, false)
	err := via.Process(ctx, once{cmd})
	if unknown(err) {
		cmd = command(ctx, r, true)
		err = via.Process(ctx, once{cmd})
	}
	if err != nil {
		return nil, err
	}
	return cmd.Slice()
}

func unknown(err error) bool {
	return err != nil && (errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT"))
}

// forbidden reports whether the server refused a whole command: the user may not use one of its keys, perhaps not for the claim's sake that sent it.
func forbidden(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOPERM") && !strings.Contains(err.Error(), "in script")
}

// outcome is what became of one of several requests.
type outcome struct {
	raw []any
	err error
}

// answers are those that came for r.
func (o outcome) answers(r request) ([]answer, error) {
	if o.err != nil {
		return nil, o.err
	}
	return answers(r, o.raw)
}

// together is how many of n locks one script call may be about: on a Cluster it must stay in one slot.
func (s *Store) together(n int) int {
	if s.cluster != nil {
		return 1
	}
	return n
}

// exec runs the scripts of rs once each, in one pipeline. Each has its own outcome, and NOSCRIPT is the answer to one of them only. With asking they go to a server that is
// being given their slot: ASKING lasts for one command.
func exec(ctx context.Context, via sender, rs []request, asking bool) []outcome {
	out := make([]outcome, len(rs))
	if len(rs) == 1 && !asking {
		out[0].raw, out[0].err = eval(ctx, via, rs[0])
		return out
	}
	all := make([]int, len(rs))
	for i := range rs {
		all[i] = i
	}
	for again := pipe(ctx, via, rs, all, asking, false, out); len(again) > 0; {
		again = pipe(ctx, via, rs, again, asking, true, out) // the one that brings the script along may be redirected, and the script with it
	}
	return out
}

// pipe sends those of rs and returns those whose script the server does not know. With whole the first of them brings its script along.
func pipe(ctx context.Context, via sender, rs []request, which []int, asking, whole bool, out []outcome) (again []int) {
	p := via.Pipeline()
	cmds := make([]*redis.Cmd, len(which))
	brought, wholes := map[*script]bool{}, make([]bool, len(which))
	for n, i := range which {
		if asking {
			_ = p.Process(ctx, once{redis.NewCmd(ctx, "asking")}) // only Exec sends
		}
		wholes[n] = whole && !brought[rs[i].script]
		cmds[n] = command(ctx, rs[i], wholes[n])
		brought[rs[i].script] = true
		_ = p.Process(ctx, once{cmds[n]})
	}
	_, failed := p.Exec(ctx)
	for n, i := range which {
		err := cmds[n].Err()
		if err == nil && failed != nil && cmds[n].Val() == nil {
			err = failed // a hook gave up before anything was sent
		}
		switch {
		case err == nil:
			out[i].raw, out[i].err = cmds[n].Slice()
		case unknown(err) && !wholes[n]:
			again = append(again, i)
		default:
			out[i].raw, out[i].err = nil, err
		}
	}
	return again
}
