// Package supervise runs a command only while this process leads an election or holds a lock. It implements
// goversed exec and goversed lock.
//
//	goversed (holder) ── the deadline, again and again ──► goversed guard ── starts ──► command
//	   its session     ◄────── the command is gone ──────      its parent            a group of its own
//
// The holder owns the session in etcd or PostgreSQL. The guard is a small separate process and the parent of the
// command. The holder sends it the deadline, on clocks that both processes read. Unless a later deadline arrives, the
// guard ends the command's process group, with SIGTERM and then SIGKILL, so that it is gone before the deadline. The
// guard does the same immediately when the holder orders it, and when the holder is gone, which the end of a pipe
// shows. In the last case the guard ends the session itself, so that the next candidate need not wait for the TTL. If
// the guard is killed, the kernel kills the command with it (on Linux), and the holder ends the rest of the group.
// Nothing is released before all these processes are gone. [ending] decides; this package is the shell around it.
//
// # What is not promised
//
//   - Descendants that leave the command's process group or session are not ended, except with Config.Cgroup.
//   - If holder and guard are killed at the same moment, the kernel kills the command, but its children
//     continue, with Cgroup too. The command continues as well on systems other than Linux, and on Linux if it
//     is setuid.
//   - If holder and guard are both stopped and the command is not, no process ends it.
//   - If goversed is killed before the command has started, other candidates wait for the TTL.
//   - The command does not inherit the file descriptors 3 and 4, because the guard uses them.
//   - A command that the kernel cannot kill (because it waits for a disk or NFS, say), or that this user may
//     not kill, outlives the deadline. The election or lock is not released before the command ends.
//   - A guard that the kernel cannot kill, and that does not run, keeps the holder from touching the command's
//     group, so the command can outlive the deadline. Nothing is released before that guard is gone, too.
//   - If the guard is killed before it has reported the command's process id, the holder kills all children
//     that it got since it started the guard. In the first process of a container, these can be unrelated
//     orphans.
//   - A session in PostgreSQL whose connection has ended is given up for the others at its deadline, also if such a
//     command is not gone then.
//
// The token protects against all of these cases, and against a pause just before a write: see GOVERSE_KEY and
// GOVERSE_TOKEN.
package supervise
