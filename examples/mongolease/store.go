// Package mongolease is a lease store for package elector in one document of MongoDB. It is the worked example of
// docs/guides/lease-stores.md: copy it.
//
//	client, err := mongo.Connect(options.Client().ApplyURI(url))
//	store, err := mongolease.New(client.Database("app").Collection("leases"), "reports")
//	e, err := elector.New(elector.Config{LeaseStore: store, CandidateID: host, …})
//
// MongoDB must be a replica set, of one server if need be, because a single server without one has no linearizable
// reads. A failover loses no write that was confirmed, because a majority had it on disk.
//
// # What is not promised
//
//   - This repository has no MongoDB to test with. The conformance suite runs against the one that GOVERSE_MONGODB
//     names. A database that only speaks MongoDB's protocol may not compare and write in one step.
//   - Confirmed writes may be lost where writeConcernMajorityJournalDefault is false, or in a restored backup.
//   - A handover is not immediate. The store is not watched, so the next candidate leads up to RetryPeriod after a
//     release.
package mongolease

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/goverse/goverse/cluster/elector"
)

// Store is a lease store in one document. It is safe for concurrent use.
type Store struct {
	leases *mongo.Collection
	name   string
}

// New returns a store in the document of a collection that has the name as its _id: candidates with the same collection
// and name compete. The collection's own concerns and read preference do not matter. New sends no request to MongoDB.
func New(leases *mongo.Collection, name string) (*Store, error) {
	if leases == nil || name == "" {
		return nil, fmt.Errorf("%w: mongolease.New needs a collection and a name", elector.ErrBadConfig)
	}
	return &Store{name: name, leases: leases.Clone(options.Collection().
		// A read sees every write that was confirmed before it began. With majority or local, a primary that has been
		// replaced and does not know it yet would answer with an older record.
		SetReadConcern(readconcern.Linearizable()).
		SetReadPreference(readpref.Primary()).
		// A confirmed write survives every failover. With a smaller number it may be rolled back: two candidates would
		// lead, and a token would be given twice.
		SetWriteConcern(writeconcern.Majority()))}, nil
}

// record is the stored form of a lease.
type record struct {
	Name              string `bson:"_id,omitempty"` // has a unique index, and is written once
	Version           string `bson:"version"`
	HolderIdentity    string `bson:"holderIdentity"`
	HolderInstance    string `bson:"holderInstance"`
	LeaseDuration     int64  `bson:"leaseDurationNanoseconds"`
	AcquireTime       int64  `bson:"acquireTimeMicroseconds"` // a date of BSON has only milliseconds
	RenewTime         int64  `bson:"renewTimeMicroseconds"`
	LeaderTransitions int64  `bson:"leaderTransitions"`
}

var errNoVersion = errors.New("it has no version")

// GetLease implements [elector.LeaseStore].
func (s *Store) GetLease(ctx context.Context) (elector.Lease, error) {
	found, err := s.leases.FindOne(ctx, bson.D{{Key: "_id", Value: s.name}}).Raw()
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return elector.Lease{}, elector.ErrNotFound
	case err != nil:
		return elector.Lease{}, fmt.Errorf("read lease %q: %w", s.name, err)
	}
	var r record
	err = bson.Unmarshal(found, &r)
	if err == nil && r.Version == "" {
		err = errNoVersion
	}
	if err != nil {
		return elector.Lease{}, fmt.Errorf("document %q of %s is no lease record; use another name: %w", s.name,
			s.leases.Name(), err)
	}
	return elector.Lease{HolderIdentity: r.HolderIdentity, HolderInstance: r.HolderInstance,
		LeaseDuration: time.Duration(r.LeaseDuration), AcquireTime: time.UnixMicro(r.AcquireTime).UTC(),
		RenewTime: time.UnixMicro(r.RenewTime).UTC(), LeaderTransitions: r.LeaderTransitions, Version: r.Version}, nil
}

// CreateLease implements [elector.LeaseStore].
func (s *Store) CreateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	lease.Version = rand.Text() // not a counter: a document that was deleted must not get the same version again
	switch _, err := s.leases.InsertOne(ctx, recordOf(s.name, lease)); {
	case mongo.IsDuplicateKeyError(err):
		return elector.Lease{}, elector.ErrExists
	case err != nil:
		return elector.Lease{}, fmt.Errorf("create lease %q: %w", s.name, err)
	}
	return lease, nil
}

// UpdateLease implements [elector.LeaseStore]. It compares and writes in one step, and keeps the fields of a document
// that it does not know.
func (s *Store) UpdateLease(ctx context.Context, lease elector.Lease) (elector.Lease, error) {
	stored := bson.D{{Key: "_id", Value: s.name}, {Key: "version", Value: lease.Version}}
	lease.Version = rand.Text()
	result, err := s.leases.UpdateOne(ctx, stored, bson.D{{Key: "$set", Value: recordOf("", lease)}})
	switch {
	case err != nil: // also if too few members confirmed a write that the primary has: its outcome is unknown
		return elector.Lease{}, fmt.Errorf("write lease %q: %w", s.name, err)
	case result.MatchedCount == 0:
		return elector.Lease{}, elector.ErrConflict
	}
	return lease, nil
}

// recordOf returns the record of a lease. Without a name it has no _id.
func recordOf(name string, l elector.Lease) record {
	return record{name, l.Version, l.HolderIdentity, l.HolderInstance, int64(l.LeaseDuration), l.AcquireTime.UnixMicro(),
		l.RenewTime.UnixMicro(), l.LeaderTransitions}
}
