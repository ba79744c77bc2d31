package postgres

// The limits of the deletion of expired marks, for tests.
const (
	ExpireBatch = expireBatch
	ExpireEvery = expireEvery
)
