// Package supervise runs a command only while this process leads an election or holds a lock:
// what goversed exec and goversed lock do.
//
//	goversed (holder) ── the deadline, again and again ──► goversed guard ── starts ──► command
//	   session at etcd ◄────── the command is gone ──────      its parent            a group of its own
//
// The holder has the session at etcd. The guard is a small process of its own, the parent of
// the command; it knows the deadline on clocks that both read, and ends the command's process
// group, SIGTERM and then SIGKILL, so that it is gone before the deadline unless the holder
// sent it a later one. It does the same at once when ordered to, and when the holder is gone,
// which the end of a pipe shows. It revokes the lease itself then, so that the next one need
// not wait for the TTL. If the guard is killed, the kernel kills the command with it (on
// Linux), and the holder ends what is left of the group. Nothing is given up at etcd before
// all of that is seen to be gone. [ending] decides; this package is the shell around it.
//
// # What is not promised
//
//   - Descendants that leave the command's process group or session are not ended, except with
//     Config.Cgroup.
//   - When holder and guard are killed at the same moment, the kernel kills the command, and
//     its children go on, with Cgroup too. On systems other than Linux the command goes on as
//     well. A command that is setuid does also on Linux.
//   - When holder and guard are both stopped and the command is not, nobody ends it.
//   - When goversed is killed before the command has begun, others wait for the TTL.
//   - The command does not inherit the file descriptors 3 and 4: the guard has them.
//   - A command that the kernel cannot kill (it waits for a disk or NFS, say), or that this
//     user may not kill, outlives the deadline; it is not released before it ends.
//   - A guard that the kernel cannot kill, and that does not run, keeps the holder from
//     touching the command's group, so that the command can outlive the deadline; nothing is
//     released before that guard is gone, too.
//   - Where the guard is killed before it has said what the command is, the holder kills all
//     children that it has got since it started the guard. As the first process of a container
//     these can be orphans of others.
//
// Against all of these, and any pause just before a write, the token helps: see GOVERSE_KEY
// and GOVERSE_TOKEN.
package supervise
