package picket

import (
	"context"
	"log/slog"

	"github.com/picket-go/picket/internal/bound"
)

// LogTo returns an Observer that logs jeopardy and loss at Warn and Error, the rest at Debug. The end of the contexts, which a release may still follow, is a Warn. A nil logger logs nothing.
func LogTo(log *slog.Logger) Observer {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return Observer{
		AcquireEnd: func(ctx context.Context, e AcquireEvent) {
			attrs := []slog.Attr{slog.String("key", e.Key), slog.Duration("waited", e.Waited), slog.Int("attempts", e.Attempts)}
			if e.Err != nil {
				log.LogAttrs(ctx, slog.LevelDebug, "picket: not acquired", append(attrs, slog.Any("error", e.Err))...)
				return
			}
			log.LogAttrs(ctx, slog.LevelDebug, "picket: acquired", append(attrs, slog.Int64("token", e.Lease.Token()))...)
		},
		ReleaseEnd: func(ctx context.Context, e ReleaseEvent) {
			attrs := append(leaseAttrs(e.Lease), slog.Duration("held", e.Held))
			if e.Err != nil {
				attrs = append(attrs, slog.Any("error", e.Err))
			}
			log.LogAttrs(ctx, slog.LevelDebug, "picket: released", attrs...)
		},
		RenewEnd: func(e RenewEvent) {
			log.LogAttrs(bound.None(), slog.LevelDebug, "picket: renewed", slog.Int("leases", e.Leases), slog.Int("renewed", e.Renewed), slog.Int("lost", e.Lost),
				slog.Int("unanswered", e.Unanswered), slog.Duration("took", e.Took), slog.Duration("headroom", e.Headroom))
		},
		LeaseChange: func(e LeaseEvent) {
			attrs := append(leaseAttrs(e.Lease), slog.String("from", e.From.String()), slog.String("to", e.To.String()))
			if e.Err != nil {
				attrs = append(attrs, slog.Any("error", e.Err))
			}
			log.LogAttrs(bound.None(), changeLevel(e.To), "picket: lease is "+e.To.String(), attrs...)
		},
	}
}

func leaseAttrs(l *Lease) []slog.Attr {
	return []slog.Attr{slog.String("key", l.Key()), slog.Int64("token", l.Token())}
}

func changeLevel(to State) slog.Level {
	switch to {
	case StateJeopardy, StateEnding:
		return slog.LevelWarn
	case StateLost:
		return slog.LevelError
	default:
		return slog.LevelDebug
	}
}
