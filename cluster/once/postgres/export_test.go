package postgres

// The limits of the deletion of expired marks, and the lock of the transaction that makes the table, for tests.
const (
	TableLock   = tableLock
	ExpireBatch = expireBatch
	ExpireEvery = expireEvery
)
