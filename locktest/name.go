package locktest

import (
	"strings"

	"github.com/picket-go/picket"
)

var naming = theme{"key", []check{
	{"odd keys never collide", 0, oddKeys},
	{"keys of 512 bytes are taken and compared whole", 0, longKeys},
}}

// oddKeys covers GL-14 for names: no key may reach into another's records, whatever the store builds from it.
func oddKeys(e *env) {
	suffixes := []string{
		"", " ", "  ", "\t", "\n", "\r\n", "\x00", "\x00\x00", "\x7f", "\xff", "\xff\xfe", "�",
		"a", "A", "aa", "ß", "SS", "ü", "u\u0308", "Ü", "日本", "🔒", "\u200b", "\u202e",
		"{", "}", "{}", "{a}", "{b}", "}{", "{{a}}", "{a", "a}",
		"/", "//", "/a", "/a/", "/a/b", "/./a", "/../a", "\\a", "\\..\\a", ":", ":a", "::", "%", "%2F", "%2f", "%00", "%%", "+", "~", "_", "=",
		"*", "?", "a*", "[a]", "[^a]", "\\*", "'", `"`, "`", "$a", "$(a)", ";", "--", "|", "<", ">",
		":fence", ":queue", ":waiters", ":gone", ".lock", ".json", ".lock.lock", ".tmp", ".", "..", "a.", "-", ",",
	}
	var held []lease
	for _, s := range suffixes {
		held = append(held, e.granted(e.claim(e.base+s)))
	}
	for _, l := range held {
		if s := e.heldBy(l.Claim); s.Token != l.Token {
			e.Errorf("%q has token %d, want %d", l.Key, s.Token, l.Token)
		}
	}
	for i, l := range held {
		if i%2 == 0 {
			e.release(l.Claim)
		}
	}
	for i, l := range held {
		if i%2 == 0 {
			e.state(l.Key, picket.StatusFree)
		} else {
			e.stillHolds(l.Claim)
		}
	}
}

func longKeys(e *env) {
	pad := e.base + strings.Repeat("k", 512-len(e.base))
	var held []lease
	for _, key := range []string{pad, pad[:511], pad[:511] + "K", pad[:511] + "/", pad[:256], pad[:255], e.base + strings.Repeat("\x00", 512-len(e.base))} {
		held = append(held, e.granted(e.claim(key)))
	}
	for _, l := range held {
		e.stillHolds(l.Claim)
	}
}
