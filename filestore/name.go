package filestore

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strings"
)

const (
	// longest leaves room for a suffix where file names are shortest: 143 bytes on eCryptfs.
	longest = 120
	// readable is how much of a long name is kept before its hash.
	readable = 60

	hexDigits = "0123456789abcdef"
)

// floorName is no key's name: '~' stands only between the beginning of a long name and its hash.
const floorName = "~floor"

var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// reserved are device names on Windows, whatever follows their first dot.
// https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
var reserved = []string{
	"con", "prn", "aux", "nul",
	"com0", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt0", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
}

// encode returns the name of key's files without their suffix. Distinct keys get distinct names, also where case is ignored or Unicode is normalised:
// names are lower-case ASCII.
func encode(key string) string {
	var b strings.Builder
	stem, _, _ := strings.Cut(key, ".")
	device := slices.Contains(reserved, stem)
	cut := 0 // where a long name may be cut without splitting an escape
	for i := range len(key) {
		if c := key[i]; plain(c) && (i > 0 || (c != '.' && c != '-' && !device)) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
		if b.Len() <= readable {
			cut = b.Len()
		}
	}
	if b.Len() <= longest {
		return b.String()
	}
	sum := sha256.Sum256([]byte(key))
	return b.String()[:cut] + "~" + lowerBase32.EncodeToString(sum[:])
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.'
}
