package mongolease

import (
	"context"
	"crypto/rand"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"

	"github.com/goverse/goverse/cluster/elector"
	"github.com/goverse/goverse/cluster/elector/electortest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// urlEnv is the environment variable with the URL of a MongoDB, which must be a replica set. The test adds a database
// and removes it.
const urlEnv = "GOVERSE_MONGODB"

func connect(t *testing.T, url string) *mongo.Client {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI(url))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Disconnect(context.Background())) })
	return client
}

func TestStoreConforms(t *testing.T) {
	url := os.Getenv(urlEnv)
	if url == "" {
		t.Skip("set " + urlEnv + " to the URL of a replica set of MongoDB, as in mongodb://127.0.0.1/?replicaSet=rs0")
	}
	db := connect(t, url).Database("goverse_" + rand.Text())
	t.Cleanup(func() { require.NoError(t, db.Drop(context.Background())) })
	electortest.Run(t, func(t *testing.T) elector.LeaseStore {
		store, err := New(db.Collection("leases"), rand.Text())
		require.NoError(t, err)
		return store
	})
}

// Without an answer the outcome of a write is unknown, and that of a read is not that there is no record.
func TestMongoDBThatDoesNotAnswer(t *testing.T) {
	leases := connect(t, "mongodb://127.0.0.1:1").Database("app").Collection("leases")
	store, err := New(leases, "reports")
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, get := store.GetLease(ctx)
	_, create := store.CreateLease(ctx, elector.Lease{})
	_, update := store.UpdateLease(ctx, elector.Lease{Version: "a"})
	for _, err := range []error{get, create, update} {
		require.Error(t, err)
		require.NotErrorIs(t, err, elector.ErrNotFound)
		require.NotErrorIs(t, err, elector.ErrExists)
		require.NotErrorIs(t, err, elector.ErrConflict)
	}
	_, err = New(nil, "reports")
	require.ErrorIs(t, err, elector.ErrBadConfig)
	_, err = New(leases, "")
	require.ErrorIs(t, err, elector.ErrBadConfig)
}
