// Package etcdversion is what is known of versions of etcd. It is pure.
//
// Not promised: that a version without a known fault has none.
package etcdversion

import "github.com/coreos/go-semver/semver"

// Upgrade is the remedy where RevokesRenewed.
const Upgrade = "upgrade to 3.4.31, 3.5.13 or later"

// RevokesRenewed reports whether an etcd of that version easily revokes leases that were renewed (etcd's issue
// 15247), so that two nodes may lead for a moment. Later ones of several members still do when a leader of etcd's
// stood still for most of a TTL. A version that cannot be read does not.
func RevokesRenewed(version string) bool {
	v, err := semver.NewVersion(version)
	if err != nil {
		return false
	}
	switch {
	case v.Major < 3, v.Major == 3 && v.Minor < 4:
		return true
	case v.Major == 3 && v.Minor == 4:
		return v.LessThan(semver.Version{Major: 3, Minor: 4, Patch: 31})
	case v.Major == 3 && v.Minor == 5:
		return v.LessThan(semver.Version{Major: 3, Minor: 5, Patch: 13})
	}
	return false
}
