package redisstore

// SlotText is for tests that need names of one slot.
var SlotText = slotText
