import { MediaError } from "reactor-trio";
import { useControl, useKept, usePublication, useSetting } from "./reactor.ts";

const REFUSALS: { readonly [Code in MediaError["code"]]: string } = {
  not_allowed: "This page may not use the camera. Allow it at the icon beside the address, then start again.",
  not_found: "There is no camera. Connect one, then start again.",
  ended: "The camera was disconnected, or its use was stopped. Start it again.",
  in_use: "Another program uses the camera. Close it there, then start again.",
  insecure: "Browsers give a camera to https pages and to localhost alone. Open this page by https.",
  unsupported: "This browser cannot send a camera. A current Chrome, Firefox or Safari can.",
};

/** The camera in: off, asked for, on with what it sends, or refused with what to do. */
export function Camera() {
  const control = useControl();
  const { start, stop, publication, pending, error } = usePublication("camera");
  const { value, set: setMirror } = useSetting("mirror");
  const mirror = useKept(value) ?? true;
  const text = error instanceof MediaError ? REFUSALS[error.code] : error?.message;
  return (
    <section className="camera">
      <h2>Camera</h2>
      {publication && (
        <video
          ref={(video) => {
            if (video && video.srcObject !== publication.media) video.srcObject = publication.media;
          }}
          className={mirror ? "mirrored" : ""}
          aria-label="What the camera sends"
          autoPlay
          muted
          playsInline
        />
      )}
      <fieldset disabled={!control}>
        {publication ? (
          <button type="button" onClick={stop}>
            Stop the camera
          </button>
        ) : (
          <button type="button" disabled={pending} onClick={() => void start({ width: 640, height: 360, fps: 30 })}>
            {pending ? "Waiting for your permission" : "Paint me"}
          </button>
        )}
        <label className="switch">
          <input type="checkbox" role="switch" checked={mirror} onChange={({ target }) => setMirror(target.checked)} />
          Mirror
        </label>
      </fieldset>
      <p className="error" role="alert">
        {text}
      </p>
    </section>
  );
}
