//go:build !linux

package picket

import "time"

// machineAsleep is not known here: Windows' and macOS' Go clocks are used as they are, and a suspended machine may believe in a lease that is over. The token is right.
func machineAsleep() time.Duration { return 0 }
