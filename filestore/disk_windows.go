package filestore

import (
	"os"
	"time"
)

// replace renames temp to path. It is tried again for a moment: a reader that has path open makes it fail.
func replace(temp, path string) (err error) {
	for n := range 20 {
		if n > 0 {
			time.Sleep(time.Millisecond)
		}
		if err = os.Rename(temp, path); err == nil {
			return nil
		}
	}
	return err
}

// syncDir has nothing to do: a directory cannot be synced here.
func syncDir(string) error { return nil }
