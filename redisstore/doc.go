// Package redisstore keeps leases on Redis (7.0 or later) or Valkey (7.2 or later): on one server, on a master found by Sentinel, or on a Cluster.
//
//	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
//	store, err := redisstore.New(client)
//	if err != nil {
//		return err
//	}
//	defer store.Close(ctx)
//	locker := picket.New(store)
//
// For a key N there are up to five Redis keys, all in one slot and all with a time to live: lock:{N} is the record, one readable line that says who holds, where and
// since when; lock:{N}:fence the last token; lock:{N}:queue and lock:{N}:waiters who waits; lock:{N}:gone the claims that were undone. In names "%", "{" and "}" become
// "%25", "%7B" and "%7D", so that distinct names never share a key.
//
// Each operation is one script, sent at most once: go-redis repeats commands whose reply was lost, which would count a grant twice. A caller leaves when its ctx ends,
// whatever the network does; the call then goes on behind its back for at most a second, and one for a grant for as long as WithReplicas and WithAOF may wait beside it.
//
// Operations combine: those that come while calls are under way leave together, up to 64 in one call, each with its own answer. One that finds nothing under way is sent
// alone and at once. WithoutCombining turns that off. On a Cluster, where a script must stay in one slot, they leave as one pipeline to each node.
//
// What AddHook has added to the client, such as tracing, sees the store's calls if the client's ContextTimeoutEnabled is set; with WithReplicas and WithAOF its ReadTimeout
// and WriteTimeout must also be a second more than those wait. On a Cluster these are the hooks of the nodes' clients (OnNewNode). Otherwise the store bounds its calls with
// the client's WithTimeout, which drops hooks. A hook must not keep a command or its arguments, which are used again, must not send it again, as a release that finds its own
// work done looks like a lost lease, and must not panic: some calls run on goroutines of the store.
//
// # What it rests on
//
// Redis expires keys by its wall clock: a step forward ends leases early, and then two may hold; tokens still rise. A server that forgets acknowledged writes (failover
// with asynchronous replication, a restart without AOF, eviction) lets two hold as well; tokens rise all the same, as they come from the server's time and not from a
// counter alone. WithReplicas narrows the first window. Use maxmemory-policy noeviction.
//
// # Clusters
//
// Each lock lives in one slot. The Store finds the slot's master by itself, through redirections, a resharding and the death of a master: go-redis' own map of the Cluster is
// up to a minute old. What has no answer is never repeated elsewhere.
//
// While a slot is moved, its keys move one after the other. A lock that has some on each side goes on: its lease is renewed, inspected and given back, and its waiters keep their
// places; but nobody is let in before all of its keys have arrived (errors then say TRYAGAIN). A promotion forgets what the replica had not yet heard of, as any failover does; so does a move that is called off (CLUSTER SETSLOT STABLE), or
// whose source or target dies meanwhile, with the keys that had arrived.
//
// With ClusterSlots the map is yours: where two clients have maps that differ, and the servers are no Cluster that would say so, two may hold.
//
// Waiters listen on shard channels, over one connection to each master. Where SSUBSCRIBE is refused they use the classic ones, which every node of the Cluster passes to every
// other, and where that is refused too they poll.
//
// # Permissions
//
// This line is enough for the default prefix, on any of them:
//
//	ACL SETUSER picket on >secret ~lock:* &lock:* -@all +@connection +evalsha +eval +get +getrange +set +del +exists +type +time +pttl +pexpire +publish +subscribe +unsubscribe
//	  +zadd +zcard +zrange +zrangebyscore +zrank +zrem +zscore +hget +hset +hdel +hmget +scan +info +wait +waitaof
//	  +cluster|slots +cluster|myid +spublish +ssubscribe +sunsubscribe
//
// Without subscribe, or without the channel pattern, waiting goes on by polling.
package redisstore
