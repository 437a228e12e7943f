package redistest

import "errors"

// Windows has no such signals.

func (p *process) pause() error { return errors.ErrUnsupported }

func (p *process) resume() error { return errors.ErrUnsupported }

func (p *process) terminate() error { return errors.ErrUnsupported }
