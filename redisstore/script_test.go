package redisstore

import "testing"

// Each script against a table, with the same answers from miniredis and from a real server.

// L3, F3: the same claim again has the same token.
func TestAcquireScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"a free key is granted, and again to the same claim with the same token and the full TTL (L3, F3)", `
			acquire A ttl=5000 -> granted T1 0
			inspect -> lock [A T1 held ttl=5000 delay=0] 5000 T1 0
			wait 100ms
			acquire A ttl=5000 -> granted T1 0
			inspect -> lock [A T1 held ttl=5000 delay=0] 5000 T1 0
			acquire B -> busy [A T1 held ttl=5000 delay=0] 5000 0
			redis EXISTS queue waiters gone -> 0`},
		{"a smaller TTL never shortens", `
			acquire A ttl=9000 -> granted T1 0
			acquire A ttl=300 -> granted T1 0
			inspect -> lock [A T1 held ttl=300 delay=0] 9000 T1 0`},
		{"the last token is known for a day beyond the record", `
			acquire A ttl=5000 -> granted T1 0
			redis PTTL fence -> 97400000
			release A -> done
			redis PTTL fence -> 97400000
			inspect -> lock 0 T1 0
			acquire B -> granted T2 0`},
		{"a token from the future is counted on from, and kept beyond its time", `
			redis SET fence 3999999999999999 PX 100000 -> OK
			acquire A -> granted T1 0
			redis GET fence -> T1`},
		{"waiters queue in order and are counted", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue -> busy [A T1 held ttl=30000 delay=0] 30000 1
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire D -> busy [A T1 held ttl=30000 delay=0] 30000 2
			acquire B -> busy [A T1 held ttl=30000 delay=0] 30000 1
			acquire A -> granted T1 1
			release C -> done
			redis EXISTS queue waiters -> 0`},
		{"an expired key goes to the first live waiter, whoever calls, and the waiter confirms", `
			acquire A ttl=100 -> granted T1 0
			acquire B queue ttl=9000 -> busy [A T1 held ttl=100 delay=0] 100 0
			wait 110ms
			acquire C -> busy [B T2 handoff ttl=9000 delay=0] 1000 0
			acquire B queue ttl=9000 -> granted T2 0
			inspect -> lock [B T2 held ttl=9000 delay=0] 9000 T2 0
			redis EXISTS queue waiters -> 0`},
		{"an expired key goes to the caller outright if it is first", `
			acquire A ttl=100 -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=100 delay=0] 100 0
			wait 110ms
			acquire B queue -> granted T2 0
			redis EXISTS queue waiters -> 0`},
		{"who lets a hand-off lapse is passed over once and keeps its place", `
			acquire A -> granted T1 0
			acquire B queue ttl=100 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue -> busy [A T1 held ttl=30000 delay=0] 30000 1
			acquire D queue -> busy [A T1 held ttl=30000 delay=0] 30000 2
			release A -> done
			inspect -> lock [B T2 handoff ttl=100 delay=0] 100 T2 2
			wait 110ms
			inspect -> lock 0 T2 3
			acquire D queue -> busy [C T3 handoff ttl=30000 delay=0] 1000 1
			acquire B queue ttl=100 -> busy [C T3 handoff ttl=30000 delay=0] 1000 0
			acquire C queue -> granted T3 2
			release C -> done
			inspect -> lock [B T4 handoff ttl=100 delay=0] 100 T4 1`},
		{"who lets a hand-off lapse gets no other one until it has asked: it may be dead, and each costs a window", `
			acquire A -> granted T1 0
			acquire B queue ttl=100 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue -> busy [A T1 held ttl=30000 delay=0] 30000 1
			release A -> done
			wait 110ms
			acquire C queue -> granted T2 1
			release C -> done
			inspect -> lock 0 T2 1
			acquire D -> granted T3 1
			release D -> done
			acquire B queue ttl=100 -> granted T4 0
			redis EXISTS queue waiters -> 0`},
		{"if all let a hand-off lapse and have asked since, the first is next again", `
			acquire A -> granted T1 0
			acquire B queue ttl=100 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue ttl=100 -> busy [A T1 held ttl=30000 delay=0] 30000 1
			release A -> done
			wait 110ms
			acquire D -> busy [C T2 handoff ttl=100 delay=0] 100 1
			wait 110ms
			acquire C queue ttl=100 -> granted T3 1
			acquire B queue ttl=100 -> busy [C T3 held ttl=100 delay=0] 100 0
			release C -> done
			inspect -> lock [B T4 handoff ttl=100 delay=0] 100 T4 0`},
		{"the dead are purged", `
			acquire A -> granted T1 0
			acquire B queue life=50 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue life=50 -> busy [A T1 held ttl=30000 delay=0] 30000 1
			acquire D queue -> busy [A T1 held ttl=30000 delay=0] 30000 2
			wait 60ms
			inspect -> lock [A T1 held ttl=30000 delay=0] 30000 T1 1
			acquire E -> busy [A T1 held ttl=30000 delay=0] 30000 1
			release A -> done
			inspect -> lock [D T2 handoff ttl=30000 delay=0] 1000 T2 0`},
		{"a waiter that hung up is passed over at once (Q1)", `
			acquire A -> granted T1 0
			acquire B queue proc=gone1 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue proc=gone2 -> busy [A T1 held ttl=30000 delay=0] 30000 1
			acquire D queue -> busy [A T1 held ttl=30000 delay=0] 30000 2
			release A -> done
			inspect -> lock [D T2 handoff ttl=30000 delay=0] 1000 T2 2`},
		{"corpses never keep a free key busy", `
			acquire A -> granted T1 0
			acquire B queue proc=gone1 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			release A -> done
			acquire C -> granted T2 1`},
		{"a last-seen from the future is set to now", `
			acquire A -> granted T1 0
			acquire B queue life=50 -> busy [A T1 held ttl=30000 delay=0] 30000 0
			redis HSET waiters BBBBBBBBBBBBBBBBBBBBBBBBBB nonsense -> 0
			acquire C -> busy [A T1 held ttl=30000 delay=0] 30000 0`},
		{"a lock delay keeps the key after the lease", `
			acquire A ttl=100 delay=400 -> granted T1 0
			inspect -> lock [A T1 held ttl=100 delay=400] 500 T1 0
			wait 110ms
			acquire A ttl=100 delay=400 -> busy [A T1 held ttl=100 delay=400] 400 0
			acquire B -> busy [A T1 held ttl=100 delay=400] 400 0
			renew A -> lost expired T1`},
		{"a remaining time that nobody asked for is cut: the clock stepped back, or somebody ran PERSIST (L17)", `
			acquire A ttl=5000 -> granted T1 0
			redis PEXPIRE record 3600000 -> 1
			acquire B -> busy [A T1 held ttl=5000 delay=0] 5000 0
			redis PTTL record -> 5000
			redis PERSIST record -> 1
			inspect -> lock [A T1 held ttl=5000 delay=0] 5000 T1 0
			renew A ttl=5000 -> done
			redis PTTL record -> 5000`},
		{"foreign types and values are told by the key and left alone (GL-14)", `
			redis LPUSH record x -> 1
			redis PEXPIRE record 100000 -> 1
			acquire A -> error WRONGTYPE Operation against a key holding the wrong kind of value <record>
			redis TYPE record -> list
			redis SET record mine PX 100000 -> OK
			acquire A -> error FOREIGN <record>
			redis GET record -> mine
			redis DEL record -> 1
			redis SET fence 0x10 PX 100000 -> OK
			acquire A -> error FOREIGN <fence>
			redis SET fence 9007199254740991 PX 100000 -> OK
			acquire A -> error EXHAUSTED <fence>
			redis EXISTS record -> 0`},
	})
}

func TestReleaseScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"a second release is lost, and another's record is left alone (L4, GL-17)", `
			acquire A -> granted T1 0
			release B -> lost stolen 0
			release A -> done
			release A -> lost 0
			acquire B -> granted T2 0
			release A -> lost stolen 0
			inspect -> lock [B T2 held ttl=30000 delay=0] 30000 T2 0`},
		{"an undo before the request refuses it (L2)", `
			release A doubt -> lost 0
			redis PTTL gone -> 600000
			acquire A -> gone 600000
			acquire A queue -> gone 600000
			acquire B -> granted T1 0
			release B doubt -> done
			acquire B -> gone 600000
			redis ZCARD gone -> 2`},
		{"the rest of the min hold is kept without an id", `
			acquire A -> granted T1 0
			release A minhold=5000 -> done
			inspect -> lock [- T1 kept ttl=30000 delay=0] 5000 T1 0
			release A minhold=5000 -> lost 0
			renew A -> lost 0
			acquire A -> busy [- T1 kept ttl=30000 delay=0] 5000 0`},
		{"a hand-off nobody confirmed leaves no min hold, and the next one is in", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			acquire C queue -> busy [A T1 held ttl=30000 delay=0] 30000 1
			release A -> done
			release B minhold=5000 -> done
			inspect -> lock [C T2 handoff ttl=30000 delay=0] 1000 T2 0`},
		{"a foreign last token stops the hand-over and not the release", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			redis SET fence x PX 100000 -> OK
			release A -> done
			redis EXISTS record -> 0
			acquire B queue -> error FOREIGN <fence>
			redis ZCARD queue -> 1`},
		{"a foreign type in a place of ours is told by the key", `
			acquire A -> granted T1 0
			redis SET queue x PX 100000 -> OK
			release A -> error WRONGTYPE Operation against a key holding the wrong kind of value <queue>
			redis EXISTS record -> 1`},
	})
}

func TestRenewScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"sets the remaining time back, lengthens, never shortens, never creates", `
			renew A -> lost 0
			acquire A ttl=5000 -> granted T1 0
			wait 100ms
			renew A ttl=5000 -> done
			redis PTTL record -> 5000
			renew A ttl=9000 -> done
			inspect -> lock [A T1 held ttl=9000 delay=0] 9000 T1 0
			renew A ttl=300 -> done
			inspect -> lock [A T1 held ttl=300 delay=0] 9000 T1 0
			renew B -> lost stolen 0
			redis SET record mine PX 1000 -> OK
			renew A -> lost stolen 0`},
		{"keeps the lock delay beyond the lease", `
			acquire A ttl=5000 delay=2000 -> granted T1 0
			wait 100ms
			renew A ttl=5000 -> done
			inspect -> lock [A T1 held ttl=5000 delay=2000] 7000 T1 0`},
		{"a hand-off is confirmed by an acquire", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			release A -> done
			renew B -> handoff`},
	})
}

func TestTransferScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"a swap is unconditional", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			transfer A to C ttl=5000 -> granted T2 1
			inspect -> lock [C T2 held ttl=5000 delay=0] 5000 T2 1`},
		{"a transfer that queues goes behind those who wait", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			transfer A to C queue -> busy [B T2 handoff ttl=30000 delay=0] 1000 0
			acquire B queue -> granted T2 1
			transfer B to C queue -> granted T3 0
			redis EXISTS queue waiters -> 0`},
		{"without a record nothing is done for the second claim", `
			transfer A doubt to B -> lost 0
			inspect -> lock 0 0 0
			acquire A -> gone 600000
			acquire B -> granted T1 0
			transfer A to C -> lost stolen 0
			release C doubt -> lost stolen 0
			transfer B to C -> gone 600000
			inspect -> lock [B T1 held ttl=30000 delay=0] 30000 T1 0`},
		{"what is given up in the queue is not served", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			transfer B doubt to C -> lost stolen 0
			release A -> done
			inspect -> lock 0 T1 0`},
		{"the min hold of the first keeps the second out", `
			acquire A -> granted T1 0
			transfer A minhold=5000 to B -> busy [- T1 kept ttl=30000 delay=0] 5000 0`},
	})
}

func TestBreakScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"only the token that was seen is broken, and the key stays busy for its time", `
			break T0 -> free
			acquire A ttl=5000 -> granted T1 0
			break T0 -> token T1
			break T1 -> broken
			inspect -> lock [A T1 broken ttl=5000 delay=0] 5000 T1 0
			renew A -> lost broken T1
			acquire B -> busy [A T1 broken ttl=5000 delay=0] 5000 0
			release A -> done
			acquire B -> granted T2 0
			release B minhold=5000 -> done
			break T2 -> kept 5000`},
		{"a waiter whose hand-off is broken loses its place", `
			acquire A -> granted T1 0
			acquire B queue -> busy [A T1 held ttl=30000 delay=0] 30000 0
			release A -> done
			inspect -> lock [B T2 handoff ttl=30000 delay=0] 1000 T2 0
			break T2 -> broken
			redis EXISTS queue waiters -> 0
			inspect -> lock [B T2 broken ttl=30000 delay=0] 1000 T2 0`},
	})
}

func TestReissueScript(t *testing.T) {
	runScenarios(t, []scenario{
		{"only the holder, only above a token from the future, only within reach", `
			acquire A ttl=5000 -> granted T1 0
			reissue B 1h -> lost stolen 0
			reissue A -1h -> past
			reissue A 100000h -> far
			reissue A 9007199254740991 -> far
			reissue A 1h -> reissued T2 0
			inspect -> lock [A T2 held ttl=5000 delay=0] 5000 T2 0
			acquire A ttl=5000 -> granted T2 0
			release A -> done
			acquire B -> granted T3 0`},
	})
}
