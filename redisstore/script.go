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
)

// script is a Lua script and the hash by which Redis knows it. It has no shebang line: with one, Redis would refuse a release when memory is short.
type script struct {
	text, sha any // strings: as arguments they would be an allocation each time
}

func newScript(parts ...string) *script {
	text := strings.Join(parts, "")
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

// unanswered is what the two in demand have in front of the rest, when nothing was answered yet.
const unanswered = "local answers, began = {}, nil\n"

var (
	claimScript   = newScript(claimSimpleLua, preludeLua, queueLua, claimLua)
	inspectScript = newScript(unanswered, preludeLua, queueLua, inspectLua)
	renewScript   = newScript(renewHeldLua, preludeLua, renewLua)
	breakScript   = newScript(unanswered, preludeLua, breakLua)
	reissueScript = newScript(unanswered, preludeLua, reissueLua)
)

// once is a command that go-redis sends at most once. By default it repeats what had no answer: an INCR whose reply was lost twice counts three.
type once struct{ *redis.Cmd }

// NoRetry is asked by go-redis before it repeats a command.
func (once) NoRetry() bool { return true }

// processor sends a command: a client, or one connection of it.
type processor interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// places is how many of a command's arguments stand in front of its keys: its name, the script, how many keys.
const places = 3

// eval runs r's script once. Only NOSCRIPT is followed by a second command, as it says that nothing was done.
func eval(ctx context.Context, p processor, r request) ([]any, error) {
	cmd, err := process(ctx, p, r, "evalsha", r.script.sha)
	if errors.Is(err, redis.ErrNoScript) || redis.HasErrorPrefix(err, "NOSCRIPT") {
		cmd, err = process(ctx, p, r, "eval", r.script.text)
	}
	if err != nil {
		return nil, err
	}
	return cmd.Slice()
}

func process(ctx context.Context, p processor, r request, name, which any) (*redis.Cmd, error) {
	r.args[0], r.args[1], r.args[2] = name, which, r.keys
	cmd := redis.NewCmd(ctx, r.args...)
	cmd.SetFirstKeyPos(places)
	return cmd, p.Process(ctx, once{cmd})
}
