/** Camera and microphone: loaded when the first of them is started. */
export { startCamera } from "./camera.ts";
export { startMicrophone } from "./microphone.ts";
