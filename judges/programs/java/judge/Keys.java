package judge;

import org.apache.rocketmq.acl.common.AclClientRPCHook;
import org.apache.rocketmq.acl.common.SessionCredentials;
import org.apache.rocketmq.remoting.RPCHook;

/** The account of this process, from its environment; without one nothing is signed. */
final class Keys {
    private Keys() {}

    static RPCHook hook() {
        String user = System.getenv("JUDGE_ACCESS_KEY");
        if (user == null) {
            return null;
        }
        return new AclClientRPCHook(new SessionCredentials(user, System.getenv("JUDGE_SECRET_KEY")));
    }
}
